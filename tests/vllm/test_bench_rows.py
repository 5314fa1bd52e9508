"""The rows of the fault bench that are faults of a platform for vLLM, and the test that each has.

`benchmarks/faults/rows.yaml` names them; the rest of the bench injects its faults into the emulated
NPU (docs/fault-bench.md).
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ROWS = {
    row["number"]: row["instead"]
    for row in yaml.safe_load((ROOT / "benchmarks/faults/rows.yaml").read_text(encoding="utf-8"))
    if "vLLM" in row.get("instead", "")
}


def test_these_rows_need_vllm() -> None:
    assert sorted(ROWS) == [1, 7, 8, 22, 23, 24, 25, 30]


@pytest.mark.parametrize("number", ROWS)
def test_each_row_names_tests_that_are_there(number: int) -> None:
    named = re.findall(r"(test_\w+)\.(test_\w+)", ROWS[number])
    assert named
    for module, test in named:
        source = (ROOT / "tests/vllm" / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {test}(" in source, f"{module}.py has no {test}"


def test_a_backend_answers_all_that_vllm_may_ask_a_backend() -> None:
    """Row 22: one that is no subclass of vLLM's lacks what a newer vLLM has added there."""
    pytest.importorskip("vllm")
    from vllm.v1.attention.backend import AttentionBackend

    from jumar.vllm.attention.paged import TorchPagedBackend

    asked = {name for name in vars(AttentionBackend) if not name.startswith("_")}
    added = {"get_required_kv_cache_layout", "customize_spec"}  # by vLLM 0.24, by 0.33
    assert asked & added
    assert not {name for name in asked if not hasattr(TorchPagedBackend, name)}
    assert not getattr(TorchPagedBackend, "__abstractmethods__", None)
    alone = type("Alone", (), {**vars(TorchPagedBackend)})
    assert {name for name in asked if not hasattr(alone, name)}, "nothing would be missing"
