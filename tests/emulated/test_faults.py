"""Each kind of fault does what it says, to the calls it names, and to no others."""

from __future__ import annotations

import threading

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
import torch_npu
from tests.emulated.processes import python

from jumar.contracts.errors import InvalidValue, UnknownKey
from jumar.emulator import fault, record

X = torch.randn(4, 4)


@pytest.fixture
def x():
    return X.to("npu:0")


def test_an_operator_raises_a_real_text(x):
    with fault("mm", text="coreDim") as set_fault:
        with pytest.raises(RuntimeError, match="value 70218 for parameter coreDim is invalid"):
            x @ x
        x + 1
        X @ X
    assert (set_fault.seen, set_fault.hits) == (1, 1)
    x @ x


def test_without_a_text_it_is_the_aicore_exception(x):
    with fault("silu"), pytest.raises(RuntimeError, match="aclsilu.*507015"):
        F.silu(x)


def test_operators_that_torch_takes_apart_are_met_whole(x):
    q = torch.randn(1, 2, 3, 4, device="npu:0")
    for op, call in {
        "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(q, q, q),
        "layer_norm": lambda: F.layer_norm(x, (4,)),
        "rms_norm": lambda: F.rms_norm(x, (4,)),
        "linear": lambda: F.linear(x, x),
        "convolution": lambda: F.conv1d(q[0], q[0]),
        "npu_swiglu": lambda: torch_npu.npu_swiglu(x),
        "_local_scalar_dense": lambda: x[0, 0].item(),
        "_copy_from": lambda: x.cpu(),
        "empty": lambda: torch.empty(3, device="npu:0"),
    }.items():
        with fault(op), pytest.raises(RuntimeError, match="507015"):
            call()
        call()


def test_every_operator_can_be_met(x):
    with fault("*", calls="3"):
        x + 1
        x * 2
        with pytest.raises(RuntimeError, match="507015"):
            x - 3
        x / 4


def test_conditions_choose_the_calls(x):
    other, half = x.to("npu:1"), x.half()
    small = torch.ones(2, 2, device="npu:0")
    for conditions, met, spared in (
        ({"device": 1}, other, x),
        ({"dtype": "float16"}, half, x),
        ({"shape": [4, "*"]}, x, small),
        ({"shape": "[>=3, 4]"}, x, small),
        ({"numel": ">=16"}, x, small),
        ({"when": lambda a, *_: a.shape[0] > 3}, x, small),
    ):
        with fault("mm", **conditions):
            spared @ spared
            with pytest.raises(RuntimeError, match="507015"):
                met @ met


@pytest.mark.parametrize(
    ("call", "count"),
    [
        (lambda x: x @ x, 2),
        (lambda x: torch.addmm(x, x, x), 3),
        (lambda x: torch.cat([x, x, x]), 3),
        (lambda x: x.add_(x), 2),
        (lambda x: x @ x.t(), 2),
    ],
)
def test_a_condition_sees_the_tensors_as_the_operator_is_given_them(x, call, count):
    seen = []
    with fault("*", when=lambda *given: seen.append(given) or False):
        call(x)
    assert [given[0].shape for given in seen[-1:]] == [x.shape]
    assert len(seen[-1]) == count


def test_calls_are_counted_from_one(x):
    with fault("mm", calls="2-3"):
        x @ x
        for _ in range(2):
            with pytest.raises(RuntimeError):
                x @ x
        x @ x


def test_an_overload_can_be_named(x):
    with fault("add.Scalar"):
        x + x
    with fault("add.Tensor"), pytest.raises(RuntimeError):
        x + x


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("scale", lambda y: y * 1.01),
        ("nan", lambda y: torch.full_like(y, float("nan"))),
        ("zero", torch.zeros_like),
    ],
)
def test_wrong_answers(x, how, expected):
    with fault("mm", "wrong", how=how):
        got = (x @ x).cpu()
    torch.testing.assert_close(got, expected(X @ X), equal_nan=True)
    assert torch.equal((x @ x).cpu(), X @ X)


def test_lanes_are_wrong_where_a_mask_was_forgotten():
    long = torch.arange(40.0, device="npu:0")
    with fault("mul", "wrong", how="lanes"):
        got = (long * 1).cpu()
    assert (got != torch.arange(40.0)).nonzero().flatten().tolist() == [0, 13, 26, 39]


def test_wrong_in_place_and_by_a_function_of_ones_own(x):
    with fault("add_", "wrong", change=lambda t: t.view(-1)[0].fill_(99)):
        y = x.clone()
        y.add_(1)
    expected = X + 1
    expected[0, 0] = 99
    assert torch.equal(y.cpu(), expected)


def test_nondeterministic_answers_differ_each_time():
    long = torch.arange(1000.0, device="npu:0")
    with fault("mul", "nondeterministic"):
        first, second = (long * 1).cpu(), (long * 1).cpu()
    assert not torch.equal(first, second)
    assert 50 < (first != torch.arange(1000.0)).sum() <= 100


def test_a_hung_operator_holds_its_thread_and_no_other(x):
    answers = []
    with fault("mm", "hang") as set_fault:
        thread = threading.Thread(target=lambda: answers.append((x @ x).sum().item()))
        thread.start()
        thread.join(0.2)
        assert thread.is_alive() and (x + 1).sum().item()
        set_fault.release()
        thread.join(20)
    assert len(answers) == 1


def test_a_slow_operator_takes_its_time(x):
    import time

    with fault("mm", "delay", seconds=0.05):
        begun = time.monotonic()
        x @ x
        assert time.monotonic() - begun >= 0.05


@pytest.mark.parametrize(
    "told_by",
    [
        lambda y: torch.npu.synchronize(),
        lambda y: y.cpu(),
        lambda y: y + 1,
        lambda y: y[0, 0].item(),
        lambda y: torch.npu.Stream().synchronize(),
    ],
)
def test_an_asynchronous_error_is_told_by_what_waits(x, told_by):
    with fault("mm", "deferred", calls=1):
        y = x @ x
    with pytest.raises(RuntimeError, match="507015"):
        told_by(y)
    told_by(y)


def test_out_of_memory_where_there_is_memory(x):
    with (
        fault("mm", "oom", bytes=3 << 30),
        pytest.raises(
            torch.OutOfMemoryError, match=r"NPU out of memory. Tried to allocate 3.00 GiB \(NPU 0;"
        ),
    ):
        x @ x


def test_leaked_memory_stays_taken(x):
    before = torch.npu.memory_allocated(0)
    with fault("mm", "leak", bytes=1 << 20, calls=1):
        x @ x
    torch.npu.empty_cache()
    assert torch.npu.memory_allocated(0) == before + (1 << 20)


def test_synchronising_can_fail():
    with fault("synchronize", text="507011"), pytest.raises(RuntimeError, match="507011"):
        torch.npu.synchronize()


def test_speed_of_other_operators_is_untouched(x):
    with fault("mm"), record() as seen:
        x + 1
    assert seen == ["aten::add.Tensor"]


@pytest.mark.parametrize(
    ("op", "told"),
    [
        ("softmxa", "'softmax'"),
        ("npu_swigul", "'npu_swiglu'"),
        ("aten::nothing_like_it_at_all", "Valid:"),
        ("mm.oot", "out"),
    ],
)
def test_an_operator_that_does_not_exist_is_an_error_that_names_the_nearest(op, told):
    with pytest.raises(InvalidValue) as caught, fault(op):
        pass
    assert told in str(caught.value.hint)


def test_a_condition_that_does_not_exist_is_an_error():
    with pytest.raises(UnknownKey) as caught, fault("mm", shapes=[1]):
        pass
    assert "'shape'" in str(caught.value.hint)


# ---- child processes -----------------------------------------------------------------------------

PRODUCT = "import torch; x = torch.ones(4, 4, device='npu:0'); x @ x; print('done')"


def test_a_child_meets_the_faults_of_the_variable():
    told = python(PRODUCT, JUMAR_EMULATE_FAULTS="[{op: mm, kind: raise, text: EE1001}]")
    assert told.returncode == 1 and "coreDim=123408" in told.stderr
    assert "with 1 fault" in told.stderr


def test_a_file_of_faults(tmp_path):
    path = tmp_path / "faults.yaml"
    path.write_text("faults:\n- {op: mm, kind: raise, text: my own words}\n")
    told = python(PRODUCT, JUMAR_EMULATE_FAULTS=str(path))
    assert "RuntimeError: my own words" in told.stderr


def test_an_abort_ends_the_process_by_a_signal():
    assert python(PRODUCT, JUMAR_EMULATE_FAULTS="[{op: mm, kind: abort}]").returncode == -6


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("[{op: mmm, kind: raise}]", "There is no operator 'mmm'"),
        ("[{op: mm, kind: explode}]", "A fault's kind is 'explode'"),
        ("[{op: mm}]", "A fault says no kind"),
        ("no/such/file.yaml", "cannot be read"),
        ("[{op: mm", "is no YAML"),
        ("[mm]", "holds no list of faults"),
    ],
)
def test_a_variable_that_is_not_valid_stops_the_process(value, told):
    ran = python("import torch", JUMAR_EMULATE_FAULTS=value)
    assert ran.returncode == 1 and told in ran.stderr
