"""An NPU that cannot be used says why, in the words of what failed, and how it is put right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from jumar.contracts.errors import DeviceUnavailable
from jumar.devices import ascend, place
from jumar.devices.remedy import remedy

HCCL = "libhccl.so: cannot open shared object file: No such file or directory"
OPP = "ASCEND_OPP_PATH environment variable is not set."
SYMBOL = "/site-packages/torch_npu/lib/libtorch_npu.so: undefined symbol: _ZN2at4_ops4meta"

Install = Callable[[str], Path]


@pytest.fixture
def torch_npu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a torch_npu of that text."""

    def install(text: str) -> Path:
        package = tmp_path / "torch_npu"
        package.mkdir()
        (package / "__init__.py").write_text(text)
        monkeypatch.delenv("JUMAR_EMULATE_NPU", raising=False)
        monkeypatch.setenv("ACL_OP_COMPILER_CACHE_DIR", str(tmp_path))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "torch_npu", raising=False)
        ascend._load_failure.cache_clear()
        return tmp_path

    yield install
    sys.modules.pop("torch_npu", None)
    ascend._load_failure.cache_clear()


@pytest.mark.parametrize(
    ("kind", "words", "fix"),
    [
        ("ImportError", HCCL, "(log-cann-environment): source /usr/local/Ascend/"),
        ("Exception", OPP, "(log-cann-environment): source /usr/local/Ascend/"),
        ("ImportError", SYMBOL, "(log-undefined-symbol): python3 -m pip list"),
    ],
)
def test_an_import_failure_carries_its_words_and_the_fix(
    torch_npu: Install, kind: str, words: str, fix: str
) -> None:
    torch_npu(f"raise {kind}({words!r})")
    with pytest.raises(DeviceUnavailable) as refused:
        place("ascend")
    assert refused.value.message == (
        f"ascend cannot be used here: torch_npu does not load: {kind}: {words.rstrip('.')}."
    )
    assert fix in str(refused.value.hint)
    assert "Here there is: cpu. " in str(refused.value.hint)


def test_where_torch_itself_loads_torch_npu_the_first_cause_is_told(torch_npu: Install) -> None:
    """torch wraps the failure of a backend that it loads by itself, and cannot be loaded again."""
    site = torch_npu(f"raise ImportError({HCCL!r})")
    told = site / "torch_npu-2.13.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: torch_npu\nVersion: 2.13.0\n")
    (told / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    code = (
        f"import sys; sys.path.insert(0, {str(site)!r})\n"
        "from jumar.devices.ascend import Ascend\n"
        "print(Ascend().unavailable(), Ascend().unavailable(), sep='\\n')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.splitlines() == [f"torch_npu does not load: ImportError: {HCCL}"] * 2


def test_an_error_that_no_rule_knows_has_no_remedy() -> None:
    assert remedy("ValueError: something else") is None


CARD = """
import torch, types
def fake(**more):
    names = dict(is_available=lambda: True, device_count=lambda: 2, get_device_name=NAME,
                 mem_get_info=lambda index: (2**30, 2**34), **more)
    return types.SimpleNamespace(**names)
NAME = lambda index: "CHIP"
torch.npu = fake(MORE)
__version__ = "2.1.0"
"""


@pytest.fixture
def chip(torch_npu: Install, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Two cards of a chip, under a torch_npu with only the names it is given."""
    import torch

    def make(name: str, more: str = "") -> ascend.Ascend:
        monkeypatch.setattr(torch, "npu", None, raising=False)
        torch_npu(CARD.replace("CHIP", name).replace("MORE", more))
        return ascend.Ascend()

    return make


@pytest.mark.parametrize(
    ("name", "default"),
    [("Ascend910B3", "bf16"), ("Ascend910A", "fp16"), ("Ascend310P3", "fp16"), ("New", "bf16")],
)
def test_a_chip_computes_in_bf16_where_it_can(chip: Any, name: str, default: str) -> None:
    card = chip(name)
    assert card.dtypes(0)[0] == default
    assert ("bf16" in card.dtypes(0)) == (default == "bf16")


def test_the_librarys_own_word_on_bf16_comes_first(chip: Any) -> None:
    assert chip("Ascend910B3", "is_bf16_supported=lambda: False").dtypes(0) == ("fp16", "fp32")


def test_switches_that_this_torch_npu_lacks_are_told_where_somebody_set_them(chip: Any) -> None:
    card = chip("Ascend910B3")
    assert card.configure({"jit_compile": None}) == []
    assert card.configure({"jit_compile": True, "internal_format": False}) == [
        "jit_compile is not set: this torch_npu has no set_compile_mode.",
        "internal_format is not set: this torch_npu has no config.",
    ]


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        ("3,5", ["npu:0 (host card 3)", "npu:1 (host card 5)"]),
        (None, ["npu:0", "npu:1"]),
        ("3,5,99", ["npu:0", "npu:1"]),  # one of them does not exist: which, nobody can tell
    ],
)
def test_the_hosts_number_stands_beside_the_index(
    chip: Any, monkeypatch: pytest.MonkeyPatch, visible: str | None, shown: list[str]
) -> None:
    if visible is None:
        monkeypatch.delenv("ASCEND_RT_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    assert [device.shown for device in chip("Ascend910B3").devices()] == shown


def test_a_fingerprint_names_driver_cann_and_compilers(
    chip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jumar.host import source

    machine = tmp_path / "machine"
    files = machine / "files/usr/local/Ascend"
    (files / "driver").mkdir(parents=True)
    (files / "driver/version.info").write_text("Version=25.3.rc1\n")
    (machine / "host.json").write_text('{"format": 1, "complete": true, "environ": {}}')
    recorded = source.open_source(str(machine))
    monkeypatch.setattr(source, "open_source", lambda host: recorded)
    monkeypatch.setattr(
        "jumar.devices.ascend.library_versions", lambda *names: dict.fromkeys(names)
    )
    ascend._below_torch.cache_clear()
    found = chip("Ascend910B3").fingerprint()
    ascend._below_torch.cache_clear()
    assert found == {
        "chip": "Ascend910B3",
        "driver": "25.3.rc1",
        "torch_npu": "2.1.0",
        "triton-ascend": None,
        "flagtree": None,
    }
