"""The flight recorder: what a process died in can be read by another one."""

from __future__ import annotations

import os
import signal
import time

import pytest

from jumar.contracts.errors import InvalidInput
from jumar.isolate import Died, Hung, Zygote
from jumar.lab.recording import PAGE, Call, Recording, first_calls, last

torch = pytest.importorskip("torch")


def misbehaving(path, end):
    """A worker whose second addition ends as it is told to."""
    from jumar.lab.recorder import recorder

    library = torch.library.Library("aten", "IMPL")
    ways = {
        "abort": os.abort,
        "hang": lambda: time.sleep(60),
        "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    }

    def answer(_):
        x = torch.ones(3)
        with recorder(path, device="cpu"):
            x = torch.mul(x, x)
            library.impl("add.Tensor", lambda *a, **k: ways[end](), "CPU")
            return torch.add(x, x)

    return answer


@pytest.fixture(scope="module")
def zygote():
    with Zygote(["torch", "torch._dynamo"]) as one:
        yield one


@pytest.mark.parametrize(("end", "outcome"), [("abort", Died), ("kill", Died), ("hang", Hung)])
def test_whatever_ends_a_process_the_call_it_was_in_is_named(tmp_path, zygote, end, outcome):
    path = tmp_path / "flight"
    with zygote.spawn(misbehaving, path, end) as child:
        child.ready()
        assert isinstance(child.call(None, deadline=4), outcome)
    call = last(path)
    assert call is not None and not call.returned
    assert (call.operator, call.shapes, call.dtypes) == (
        "aten::add.Tensor",
        [[3], [3]],
        ["float32", "float32"],
    )
    assert list(first_calls(path))[-2:] == ["aten::mul.Tensor", "aten::add.Tensor"]


def recorded(path, work):
    from jumar.lab.recorder import recorder

    with recorder(path, device="cpu"):
        work()
    return last(path)


def test_a_call_that_came_back_is_marked_as_returned(tmp_path):
    call = recorded(tmp_path / "flight", lambda: torch.ones(2).exp())
    assert call.operator == "aten::exp" and call.returned


def test_a_call_that_raises_is_not_marked(tmp_path):
    with pytest.raises(RuntimeError):
        recorded(tmp_path / "flight", lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)))
    assert not last(tmp_path / "flight").returned


def test_an_error_that_comes_with_the_synchronisation_falls_on_its_own_call(tmp_path):
    from jumar.lab.recorder import recorder

    def late():
        raise RuntimeError("507011")

    x = torch.ones(2)
    with pytest.raises(RuntimeError), recorder(tmp_path / "f", device="cpu", after=late):
        x.exp()
    call = last(tmp_path / "f")
    assert call.operator == "aten::exp" and not call.returned


def test_the_layer_of_a_call_is_its_module(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.GELU())
    call = recorded(tmp_path / "flight", lambda: model(torch.ones(1, 2)))
    assert call.operator == "aten::gelu" and call.layer == "Sequential.1"
    assert str(call) == "aten::gelu(float32[1, 2]) in Sequential.1"


def test_composites_are_named_by_what_the_device_computes_in_inference_mode_too(tmp_path):
    model, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    for context in (torch.inference_mode, torch.enable_grad):
        with context():
            recorded(tmp_path / "flight", lambda: model(x))
        assert "aten::addmm" in first_calls(tmp_path / "flight")


def test_the_source_of_a_call_is_python_that_makes_it_again(tmp_path):
    x = torch.rand(2, 3)
    call = recorded(tmp_path / "f", lambda: torch.sum(x, dim=[1], dtype=torch.float64))
    names = {"torch": torch, "tensor": lambda shape, dtype, place: x, "device": "cpu"}
    assert torch.equal(eval(call.source, names), x.sum(1, dtype=torch.float64))


def test_operators_on_other_devices_are_not_recorded(tmp_path):
    from jumar.lab.recorder import recorder

    with recorder(tmp_path / "flight", device="meta"):
        torch.ones(2).exp()
        torch.ones(2, device="meta").sin()
    assert "aten::exp" not in first_calls(tmp_path / "flight")
    assert last(tmp_path / "flight").operator == "aten::sin"


def test_before_the_first_call_there_is_none(tmp_path):
    Recording(tmp_path / "flight").close()
    assert last(tmp_path / "flight") is None and first_calls(tmp_path / "flight") == {}


def test_a_call_too_long_for_the_page_keeps_its_name(tmp_path):
    recording = Recording(tmp_path / "flight")
    many = [[123456] * 8] * 500
    recording.begin(Call("aten::cat", many, ["float32"] * 500, source="x" * PAGE))
    call = last(tmp_path / "flight")
    assert call.operator == "aten::cat" and call.source is None
    assert 0 < len(call.shapes) == len(call.dtypes) < 500
    recording.close()


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\xff" * PAGE])
def test_a_file_that_is_no_recording_is_refused(tmp_path, content):
    path = tmp_path / "flight"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="no recording"):
        last(path)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read"):
        last(tmp_path / "none")
