"""`jumar vllm status` and `patches`: what vLLM runs on here, and why."""

from __future__ import annotations

import json
import os
import re
from importlib.util import find_spec

import pytest

from jumar.cli.app import jumar
from jumar.vllm import activation

HERE = bool(find_spec("vllm"))


@pytest.fixture
def said(capsys, monkeypatch):
    """Run a command line; its exit code, stdout, stderr."""

    def run(*args: str, **environ: str) -> tuple[int, str, str]:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        activation.current.cache_clear()
        with pytest.raises(SystemExit) as ended:
            jumar.main([*args], "jumar")
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    yield run
    activation.current.cache_clear()


def test_a_device_that_is_none_is_said_in_the_table_and_is_an_error(said):
    code, out, err = said("vllm", "status", JUMAR_VLLM_DEVICE="gpu")
    assert code == 2 and "JUMAR_VLLM_DEVICE=gpu is not valid" in out and "invalid_value" in err


@pytest.mark.skipif(HERE, reason="vLLM is installed")
def test_without_vllm_it_says_so(said):
    code, out, _ = said("vllm", "status", "--json", JUMAR_VLLM_DEVICE="cpu")
    assert code == 0 and json.loads(out)["vllm"]["warning"] == "vLLM is not installed."
    code, _, err = said("vllm", "patches")
    assert code == 3 and "vLLM is not installed" in err


@pytest.mark.skipif(not HERE, reason="vLLM is not installed")
def test_it_says_what_vllm_takes_and_who_computes_what(said):
    code, out, _ = said("vllm", "status", "--json")
    found = json.loads(out)
    kind = "npu" if os.environ.get("JUMAR_EMULATE_NPU") else "cpu"
    assert code == 0 and found["active"]
    assert found["platform"] == f"jumar.vllm.platform.{kind.upper()}Platform"
    assert found["device"]["class"] in ("cpu", "npu-emulated")
    assert {row["state"] for row in found["patches"]} <= {"fits", "not needed"}
    assert found["operators"]["rms_norm"]["implementation"] in ("reference", "torch_npu")


@pytest.mark.skipif(not HERE, reason="vLLM is not installed")
def test_patches_are_listed_with_their_reasons(said):
    code, out, _ = said("vllm", "patches")
    assert code == 0 and "until" in out
    states = dict(re.findall(r"^(slot-mapping\S*): (.*)$", out, re.M))
    assert states.keys() == {"slot-mapping", "slot-mapping-kernel"}
    assert {*states.values()} == {"fits", "not needed"}, "one for each vLLM"
