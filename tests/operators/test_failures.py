"""An exception is told to come from the implementation that it came through."""

from __future__ import annotations

import pytest
import torch

from jumar.contracts.errors import InvalidValue, RunFailed
from jumar.operators.base import Override
from jumar.operators.binding import Bindings
from jumar.operators.failures import blame, evidence_of, is_out_of_memory, remember
from jumar.operators.overrides import installed

HERE = {"device_class": "cpu", "torch": "2.13"}


def kernel_that_fails(x, *rest, **named):
    raise RuntimeError("507015: aicore exception")


def failing(text="507015", kind=RuntimeError):
    def moe_sum(x):
        raise kind(text)

    return moe_sum


def caught(call, *args):
    with pytest.raises(Exception) as raised:
        call(*args)
    return raised.value


def bound(operator="rms_norm"):
    return Bindings({operator: "reference"}, "cpu").bind(operator, "float32")


def test_a_bound_function_is_named_with_its_tensors():
    error = caught(bound(), torch.ones(2, 3, 8).half(), torch.ones(5))
    assert blame(error) == (
        Override("rms_norm", "reference"),
        ((2, 3, 8), (5,)),
        ("float16", "float32"),
    )


def test_an_override_s_kernel_is_named_through_the_dispatcher():
    override = Override("aten::tanh", "theirs")
    with installed({override}, device="cpu", lookup=lambda _: kernel_that_fails):
        error = caught(torch.ones(3, 4).tanh)
    assert str(error) == "507015: aicore exception"
    assert blame(error) == (override, ((3, 4),), ("float32",))


def test_of_two_the_inner_one_is_named():
    override = Override("aten::rsqrt", "theirs")
    norm = bound()
    with installed({override}, device="cpu", lookup=lambda _: kernel_that_fails):
        error = caught(norm, torch.ones(2, 8), torch.ones(8))
    assert blame(error).override == override


def test_it_is_found_behind_the_errors_that_were_raised_from_it():
    def run():
        try:
            bound()(torch.ones(2, 8), torch.ones(5))
        except RuntimeError as error:
            raise RunFailed("the model raised") from error

    assert blame(caught(run)).override == Override("rms_norm", "reference")


def test_an_error_of_somebody_else_is_nobody_s():
    error = caught(torch.ones(2, 3).matmul, torch.ones(2, 3))
    assert blame(error) is None and evidence_of(error, HERE) is None


def test_a_failure_becomes_evidence_with_its_cause_and_shapes():
    error = caught(bound(), torch.ones(2, 3, 9).half(), torch.ones(5))
    found = evidence_of(error, HERE)
    assert found.bad and found.verdict == "raises" and found.found_by == "run"
    assert str(found.subject) == "rms_norm by reference (float16, 2x4x16,8)"
    assert found.shapes == [[2, 3, 9], [5]]
    assert found.reason.startswith("RuntimeError: ") and "size" in found.reason
    assert found.fingerprint == HERE


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("NPU out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: out of memory"),
    ],
)
def test_running_out_of_memory_is_no_defect(error):
    def kernel(x):
        raise error

    with installed({Override("aten::tanh", "theirs")}, device="cpu", lookup=lambda _: kernel):
        raised = caught(torch.ones(3).tanh)
    assert is_out_of_memory(raised)
    found = evidence_of(raised, HERE)
    assert found.verdict == "out_of_memory" and not found.bad


def test_two_implementations_may_not_share_one_function():
    one = failing()
    remember(one, Override("moe_sum", "a"))
    remember(one, Override("moe_sum", "a"))
    with pytest.raises(InvalidValue, match="could not be told apart"):
        remember(one, Override("moe_sum", "b"))


def test_the_stack_of_a_hang_shows_an_override_by_its_name():
    import traceback

    seen = []

    def kernel(x):
        seen.extend(frame.name for frame in traceback.extract_stack())
        return x

    with installed({Override("aten::tanh", "theirs")}, device="cpu", lookup=lambda _: kernel):
        torch.ones(3).tanh()
    assert "aten::tanh by theirs" in seen
