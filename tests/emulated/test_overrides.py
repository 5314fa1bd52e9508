"""An override computes its operator on the device instead of the device's kernel, and nothing else.

The faults of the emulated NPU are the positive control: without the override the answer is wrong.
"""

from __future__ import annotations

import re
import threading

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given
from hypothesis import strategies as st
from tests.emulated.comparing import equal, same
from tests.emulated.processes import python

from jumar.contracts.errors import InvalidValue, OperatorUnavailable, RunFailed
from jumar.emulator import fault, record
from jumar.operators.base import Override
from jumar.operators.dispatcher import overload
from jumar.operators.overrides import active, install, installed, live
from jumar.operators.reference import reference, unreferenced

X = torch.randn(4, 6)
GELU = Override("aten::gelu", "reference")
COMPOSITES = {
    "aten::linear": lambda x: F.linear(x, x),
    "aten::layer_norm": lambda x: F.layer_norm(x, (6,)),
    "aten::scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "aten::matmul": lambda x: x @ x.T,
    "aten::conv1d": lambda x: F.conv1d(x[None], x.T[:, :4, None]),
}


def referenced(*operators):
    return installed({Override(one, "reference") for one in operators}, device="npu")


# ---- the numbers ---------------------------------------------------------------------------------


def test_the_reference_is_right_where_the_device_is_wrong():
    x = X.to("npu")
    with fault("gelu", "wrong") as set_fault:
        assert not torch.equal(F.gelu(x).cpu(), F.gelu(X))
        with referenced("aten::gelu"):
            equal(F.gelu(x), F.gelu(X))
        assert not torch.equal(F.gelu(x).cpu(), F.gelu(X))
    assert set_fault.hits == 2


def test_it_wins_over_a_fault_that_is_set_later_too():
    x = X.to("npu")
    with referenced("aten::gelu", "aten::linear"), fault("gelu", "wrong"), fault("linear", "wrong"):
        equal(F.gelu(x), F.gelu(X))
        equal(F.linear(x, x), F.linear(X, X))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
@pytest.mark.parametrize("operator", COMPOSITES)
def test_composites_are_computed_whole_in_every_grad_mode(operator, mode):
    compute = COMPOSITES[operator]
    with mode(), fault(operator, "wrong", how="zero"):
        x = X.to("npu")
        assert not torch.allclose(compute(x).cpu(), compute(X))
        with referenced(operator):
            equal(compute(x), compute(X))


def test_faults_from_the_environment_are_covered_as_well():
    ran = python(
        """
import torch
from jumar.operators.base import Override
from jumar.operators.overrides import install
x = torch.ones(3)
wrong = torch.nn.functional.silu(x.to("npu")).cpu()
install({Override("aten::silu", "reference")}, device="npu")
right = torch.nn.functional.silu(x.to("npu")).cpu()
expected = torch.nn.functional.silu(x)
assert not torch.equal(wrong, expected) and torch.equal(right, expected)
""",
        JUMAR_EMULATE_FAULTS="[{op: silu, kind: wrong}]",
    )
    assert ran.returncode == 0, ran.stderr


def test_the_core_without_a_compiler_is_covered_as_well():
    ran = python(
        """
import torch
from jumar.emulator import fault
from jumar.operators.base import Override
from jumar.operators.overrides import installed
x = torch.randn(3, 3)
for operator, compute in (
    ("aten::mm", lambda x: x @ x), ("aten::linear", lambda x: torch.nn.functional.linear(x, x))
):
    with fault(operator, "wrong"):
        assert not torch.equal(compute(x.to("npu")).cpu(), compute(x))
        with installed({Override(operator, "reference")}, device="npu"):
            assert torch.equal(compute(x.to("npu")).cpu(), compute(x))
""",
        JUMAR_EMULATE_NPU="1,core=python",
    )
    assert ran.returncode == 0, ran.stderr


def test_operators_without_override_are_the_device_s_own():
    x = X.to("npu")
    with record() as before:
        F.silu(x)
    with referenced("aten::gelu"), record() as beside:
        F.silu(x)
    assert list(beside) == list(before)


# ---- the reference -------------------------------------------------------------------------------


UNFIT = "empty|rand|dropout|sparse|as_strided|tensor_split|lstsq|jiterator"
"""Without defined values, random, or made for other devices or layouts."""


def _opinfo():
    from torch.testing._internal.common_methods_invocations import op_db

    fit = [one for one in op_db if not re.search(UNFIT, one.name)]
    return [one for one in fit if torch.float32 in one.supported_dtypes("cpu")][::24]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of deprecated operators
def test_whatever_torch_computes_its_references_give_the_cpu_s_bits_and_strides():
    from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

    def on_device(value):
        if value == "cpu" or isinstance(value, torch.device):
            return torch.device("npu:0")
        return value.to("npu:0") if isinstance(value, torch.Tensor) else value

    every = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    compared = 0
    with referenced(*[name for name in every if _has_reference(name)]):
        for info in _opinfo():
            for sample in list(info.sample_inputs("cpu", torch.float32))[:3]:
                args = (sample.input, *sample.args)
                torch.manual_seed(0)
                expected = info.op(*tree_map_only(torch.Tensor, torch.clone, args), **sample.kwargs)
                torch.manual_seed(0)
                given = tree_map(on_device, (args, sample.kwargs))
                got = info.op(*given[0], **given[1])
                for one, other in zip(tree_leaves(got), tree_leaves(expected), strict=True):
                    if isinstance(other, torch.Tensor):
                        assert one.stride() == other.stride(), info.name
                        torch.testing.assert_close(
                            one.cpu(), other, rtol=0, atol=0, equal_nan=True, msg=info.name
                        )
                        compared += 1
    assert compared > 60


def _has_reference(name):
    op = overload(name)
    tensors = any("Tensor" in str(one.type) for one in op._schema.arguments)
    factory = any("Device" in str(one.type) for one in op._schema.arguments)
    return (tensors or factory) and unreferenced(op) is None


@given(
    st.sampled_from([(slice(None), slice(None)), (slice(None, None, 2), 3), (1, slice(1, 5))]),
    st.booleans(),
)
def test_what_it_writes_is_written_through_views(place, transposed):
    def compute(x):
        x = x.T.contiguous().T if transposed else x
        x[place].mul_(2).add_(x[place])
        return x

    with referenced("aten::mul_.Tensor", "aten::add_.Tensor"), fault("mul_"), fault("add_"):
        same(compute, X)


def test_arguments_that_share_memory_share_it_on_the_cpu():
    def compute(x):
        return torch.mul(x[:, :3], x[:, 3:], out=x[:, :3])

    with referenced("aten::mul.out"), fault("mul"):
        same(compute, X)
        line = X.to("npu").view(-1)
        with pytest.raises(RuntimeError, match="unsupported operation"):
            torch.mul(line[1:4], line[4:7], out=line[:3])


def test_out_is_the_tensor_that_was_given_resized_where_need_be():
    x, out = X.to("npu"), torch.empty(0, device="npu")
    with referenced("aten::mm.out"), fault("mm"):
        assert torch.mm(x, x.T, out=out) is out
    equal(out, X @ X.T)


def test_lists_of_tensors_and_factories_work_and_cards_are_kept():
    with referenced("aten::cat", "aten::arange"), fault("cat"), fault("arange"):
        one = torch.arange(4, device="npu:1")
        both = torch.cat([one, one])
    assert both.device == torch.device("npu:1")
    assert both.tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_an_argument_that_comes_back_is_the_argument():
    x = X.to("npu")
    with referenced("aten::dropout", "aten::relu_"):
        assert torch.dropout(x, 0.5, False).data_ptr() == x.data_ptr()
        assert x.relu_() is x


def test_it_can_compute_in_a_wider_type():
    half = torch.randn(8, 64).half()
    op = torch.ops.aten.softmax.int
    wide = reference(op, precision="float64")(half.to("npu"), -1)
    equal(wide, half.double().softmax(-1).half())
    written = half.to("npu")
    assert reference(torch.ops.aten.exp_.default, precision="float64")(written) is written
    equal(written, half.double().exp().half())


def test_gradients_are_right_or_refused():
    def gradient(x):
        x = x.clone().requires_grad_()
        F.gelu(x).sum().backward()
        return x.grad

    with referenced("aten::gelu", "aten::linear"):
        same(gradient, X)
        x = X.to("npu").requires_grad_()
        with pytest.raises(RunFailed, match="computes no gradients"):
            F.linear(x, x)
        with torch.no_grad():
            F.linear(x, x)


@pytest.mark.parametrize(
    ("operator", "why"),
    [
        ("aten::view", "view"),
        ("aten::copy_", "way to the CPU"),
        ("aten::_cudnn_rnn", "no kernel"),
    ],
)
def test_what_has_no_reference_says_why(operator, why):
    with pytest.raises(InvalidValue, match=why), referenced(operator):
        pass


# ---- proven live, and taken away -----------------------------------------------------------------


def test_an_override_that_no_call_reaches_is_an_error():
    with pytest.raises(InvalidValue, match="dead"), referenced("aten::promote_types"):
        pass
    assert not active("npu")


def test_a_kernel_that_somebody_else_registers_later_is_seen():
    with referenced("aten::gelu"):
        assert live(GELU, device="npu")
        other = torch.library.Library("aten", "IMPL")
        other.impl("gelu", lambda x, **_: x, "PrivateUse1")
        assert not live(GELU, device="npu")
        other._destroy()
        assert live(GELU, device="npu")
    assert not live(GELU, device="npu")


def test_one_bad_name_leaves_nothing_installed():
    with pytest.raises(InvalidValue, match="no operator 'aten::gellu'") as raised:
        install({GELU, Override("aten::gellu", "reference")}, device="npu")
    assert "aten::gelu" in raised.value.hint
    with pytest.raises(InvalidValue, match="dead"):
        install({GELU, Override("aten::promote_types", "reference")}, device="npu")
    assert not active("npu") and not live(GELU, device="npu")


def test_they_nest_and_device_brings_the_device_s_own_kernel_back():
    x = X.to("npu")
    with fault("gelu", "wrong"):
        wrong = F.gelu(x).cpu()
        with referenced("aten::gelu"):
            with installed({Override("aten::gelu", "device")}, device="npu"):
                assert torch.equal(F.gelu(x).cpu(), wrong)
                assert not active("npu")
            equal(F.gelu(x), F.gelu(X))
            assert active("npu") == {GELU}


def test_whoever_leaves_first_the_newest_of_the_rest_is_in_force():
    x = X.to("npu")
    kernels = {name: lambda t, _n=n, **_: torch.full_like(t, _n) for n, name in enumerate("ab")}
    a, b = (
        installed({Override("aten::gelu", name)}, device="npu", lookup=lambda o: kernels[o[1]])
        for name in "ab"
    )
    a.__enter__()
    b.__enter__()
    assert F.gelu(x).max() == 1
    a.__exit__(None, None, None)
    assert F.gelu(x).max() == 1
    b.__exit__(None, None, None)
    equal(F.gelu(x), F.gelu(X))


def test_all_threads_see_it():
    seen = []
    x = X.to("npu")
    with fault("gelu", "wrong"), referenced("aten::gelu"):
        thread = threading.Thread(target=lambda: seen.append(F.gelu(x).cpu()))
        thread.start()
        thread.join()
    assert torch.equal(seen[0], F.gelu(X))


def test_a_forked_child_inherits_it_and_can_take_it_away():
    ran = python(
        """
import os
from jumar.operators.base import Override
from jumar.operators.overrides import active, installed, live
import torch
tanh = Override("aten::tanh", "minus_one")
with installed({tanh}, device="cpu", lookup=lambda _: lambda x: torch.full_like(x, -1)) as _:
    child = os.fork()
    if child == 0:
        assert live(tanh, device="cpu") and torch.ones(1).tanh().item() == -1
        own = Override("aten::sigmoid", "minus_one")
        with installed({own}, device="cpu", lookup=lambda _: lambda x: torch.full_like(x, -1)):
            assert torch.ones(1).sigmoid().item() == -1
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.ones(1).sigmoid().item() > 0
assert torch.ones(1).tanh().item() > 0
""",
        JUMAR_EMULATE_NPU=None,
    )
    assert ran.returncode == 0, ran.stderr


def test_replacing_the_emulator_s_own_kernel_warns_nobody():
    ran = python(
        """
import warnings
import torch
from jumar.operators.base import Override
from jumar.operators.overrides import installed
with warnings.catch_warnings():
    warnings.simplefilter("error")
    with installed({Override("aten::mm", "reference")}, device="npu"):
        pass
"""
    )
    assert ran.returncode == 0, ran.stderr


def test_the_cpu_has_no_reference_of_its_own():
    with pytest.raises(InvalidValue, match="CPU computes the reference"):
        install({GELU}, device="cpu")


def test_a_provider_that_there_is_not_or_that_lacks_the_function_is_an_error():
    with pytest.raises(InvalidValue, match="no provider 'torch_npv'") as raised:
        install({Override("aten::gelu", "torch_npv")}, device="npu")
    assert "'torch_npu'" in raised.value.hint
    with pytest.raises(OperatorUnavailable, match="no such function"):
        install({Override("aten::gelu", "torch_npu")}, device="npu")
