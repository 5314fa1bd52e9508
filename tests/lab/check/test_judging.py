"""What one case says: implementations that are wrong in known ways, judged on the CPU."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")

from jumar.lab.check.adversarial import padded  # noqa: E402
from jumar.lab.check.base import Task  # noqa: E402
from jumar.lab.check.calls import Call, answered  # noqa: E402
from jumar.lab.check.judging import Machine, Planned, judge  # noqa: E402
from jumar.lab.check.subjects import subject  # noqa: E402

CPU = Machine("cpu", lambda: None, lambda: None)


def judged(operator, implementation, *args, machine=CPU):
    """The verdict on one call of an implementation."""
    known = subject(operator)
    call = Call(args, {})
    planned = Planned(0, "here", call, answered(known.op, call.cloned()))
    return judge(known.judged(planned, "cpu"), implementation, call, machine)[0]


X = torch.linspace(0.1, 3, 60).view(5, 12)
ADD = "aten::add.Tensor"


def test_the_cpu_itself_is_correct():
    assert judged(ADD, torch.ops.aten.add.Tensor, X, X).kind == "correct"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
def test_one_wrong_element_is_wrong(dtype):
    def add(one, other):
        made = one + other
        made.view(-1)[17] += 1
        return made

    x = (X * 10).to(dtype)
    verdict = judged(ADD, add, x, x)
    assert verdict.kind == "wrong"
    assert verdict.numbers["index"] == "1,5" and verdict.numbers["wrong_elements"] == 1


def test_another_dtype_or_shape_is_wrong():
    assert "float64" in judged(ADD, lambda a, b: (a + b).double(), X, X).reason
    assert "shape" in judged(ADD, lambda a, b: (a + b)[:1], X, X).reason


def test_fresh_memory_has_the_order_of_dimensions_that_was_asked_for_and_any_numbers():
    def contiguous(x):
        return torch.empty_like(x, memory_format=torch.contiguous_format)

    like = "aten::empty_like"
    assert judged(like, torch.zeros_like, X.t()).kind == "correct"
    assert judged(like, contiguous, X).kind == "correct"
    verdict = judged(like, contiguous, X.t())
    assert (verdict.kind, verdict.reason) == ("wrong", "strides [5, 1] where [1, 12] belong")


def test_what_lies_beside_a_tensor_has_to_stay():
    def add_(one, other):
        one.as_strided((1,), (1,), one.storage_offset() - 1).zero_()
        return one.add_(other)

    args = (padded(X), X.clone())
    assert judged("aten::add_.Tensor", torch.ops.aten.add_.Tensor, *args).kind == "correct"
    verdict = judged("aten::add_.Tensor", add_, *args)
    assert verdict.kind == "wrong" and "beside" in verdict.reason


def test_what_the_cpu_writes_without_saying_so_is_compared():
    """Running means of a batch norm, of which the schema only says that they are read."""
    op = torch.ops.aten.native_batch_norm.default

    def forgetful(x, weight, bias, mean, variance, *rest):
        return op(x, weight, bias, mean.clone(), variance, *rest)

    x, ones = torch.randn(4, 3, generator=torch.Generator().manual_seed(0)), torch.ones(3)
    args = (x, ones.clone(), ones.clone(), ones.clone(), ones.clone(), True, 0.5, 1e-5)
    assert judged("aten::native_batch_norm", op, *args).kind == "correct"
    verdict = judged("aten::native_batch_norm", forgetful, *args)
    assert verdict.kind == "wrong" and "argument that is written" in verdict.reason


def test_an_argument_that_is_only_read_has_to_stay():
    def add(one, other):
        made = one + other
        other.mul_(2)
        return made

    assert "beside" in judged(ADD, add, X, X.clone()).reason


def test_answers_that_differ_from_run_to_run_are_nondeterministic():
    turns = itertools.count()
    verdict = judged(ADD, lambda a, b: a + b + next(turns) % 2, X, X)
    assert verdict.kind == "nondeterministic" and "one of them is right" in verdict.reason


def test_a_pointwise_operator_may_not_choose_even_within_rounding():
    turns = itertools.count()

    def last_bit(one):
        return torch.nextafter(one, one + next(turns) % 2)

    def relu(one):
        return last_bit(one.relu())

    def total(one):
        return last_bit(one.sum())

    assert judged("aten::relu", relu, X).kind == "nondeterministic"
    assert judged("aten::sum", total, X).kind == "correct"


def test_memory_that_grows_with_every_call_leaks_and_a_workspace_does_not():
    def grown(*steps):
        levels = itertools.accumulate(itertools.chain(steps, itertools.repeat(steps[-1])))
        machine = Machine("cpu", lambda: None, lambda: next(levels))
        return judged(ADD, torch.ops.aten.add.Tensor, X, X, machine=machine)

    leak = grown(0, 64, 64)
    assert (leak.kind, leak.numbers["bytes_per_call"]) == ("leaks", 64)
    assert grown(0, 64, 0).kind == "correct"


def test_an_exception_keeps_its_words():
    def add(one, other):
        raise RuntimeError("value 70218 for parameter coreDim is invalid")

    verdict = judged(ADD, add, X, X)
    assert verdict.kind == "raises" and "coreDim" in verdict.reason


def test_an_exception_accuses_nobody_where_the_cpu_reads_what_lies_beyond():
    """Offsets of an embedding bag that are expanded: the CPU reads the memory after the first."""
    op = torch.ops.aten._embedding_bag_forward_only.default
    known = subject("aten::_embedding_bag_forward_only")
    offsets = torch.zeros(1, dtype=torch.int64).expand(2)
    args = (torch.rand(10, 5), torch.arange(5), offsets)
    steady = Call((*args[:2], torch.zeros(2, dtype=torch.int64)), {})

    def refuses(*given):
        raise RuntimeError("offsets[-1] can not be greater than input's length")

    native = answered(op, steady.cloned())
    kinds = [
        judge(known.judged(Planned(0, "here", one, native), "cpu"), refuses, one, CPU)[0].kind
        for one in (steady, Call(args, {}))
    ]
    assert kinds == ["raises", "unsupported"]


def test_another_order_of_summing_is_legal_where_the_sum_cancels():
    x = torch.randn(4001, generator=torch.Generator().manual_seed(1))
    x[-1] = -x[:-1].sum()
    assert judged("aten::sum", lambda one: one.flip(0).cumsum(0)[-1], x).kind == "correct"
    assert judged("aten::sum", lambda one: one[1:].sum(), x).kind == "wrong"


def test_a_layer_is_held_to_its_formula():
    known = subject("silu_and_mul")
    task = Task("silu_and_mul", "float32")
    for planned in known.plan(task, lambda number: None):

        def right(x):
            left, gate = x.chunk(2, -1)
            return torch.nn.functional.silu(left) * gate

        kinds = [
            judge(known.judged(planned, "cpu"), one, planned.call, CPU)[0].kind
            for one in (right, lambda x: right(x) * 1.01 + 1e-3)
        ]
        empty = not planned.call.tensors()[0].numel()
        assert kinds == ["correct", "correct" if empty else "wrong"], planned.source


def test_an_operator_that_draws_random_numbers_is_not_judged():
    bernoulli = subject("aten::bernoulli")
    assert not list(bernoulli.plan(Task("aten::bernoulli", "float32"), lambda number: None))
    assert "random" in bernoulli.without_inputs("float32")
    assert "one of many" in subject("aten::linalg_qr").refusal()
    assert subject(ADD).refusal() is None


def test_attention_without_dropout_is_judged_though_it_could_draw():
    given = {"tensor": "float32", "shape": [1, 2, 8, 4], "stride": [64, 32, 4, 1]}
    name = "aten::scaled_dot_product_attention"
    calls = [
        {"operator": name, "args": [given] * 3, "kwargs": kwargs}
        for kwargs in ({}, {"dropout_p": 0.5})
    ]
    task = Task(name, "float32", captured=tuple(calls))
    planned = [one.source for one in subject(name).plan(task, lambda number: None)]
    assert "captured call 0" in planned and "captured call 1" not in planned
