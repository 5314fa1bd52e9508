"""The shadow on the CPU itself: operators of our own that compute wrong, and what torch tells."""

from __future__ import annotations

import math

import pytest
import torch

from jumar.contracts.errors import InvalidValue
from jumar.devices import prepacking
from jumar.evidence import Subject
from jumar.lab.shadow import Coverage, Guilty, Shadow, facts
from jumar.lab.shadow.layers import Layers

aten = torch.ops.aten
X = torch.randn(6, 8, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module", autouse=True)
def own_operators():
    """`jumar_test::twice` doubles in float64 and is 1 % too large in narrower types."""
    library = torch.library.Library("jumar_test", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.define("lost(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * (2 if x.dtype == torch.float64 else 2.02), "CPU")
    library.impl("lost", _raises_in_float32, "CPU")
    yield
    library._destroy()


def _raises_in_float32(x):
    if x.dtype != torch.float64:
        raise RuntimeError("no such kernel")
    return x


class Net(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.block = torch.nn.ModuleList([inner])

    def forward(self, x):
        return self.block[0](self.first(x)).softmax(-1)


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.jumar_test.twice(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_wrong_operator_is_named_with_layer_shape_and_worst_element(dtype):
    net = Net(Twice()).to(dtype)
    with torch.no_grad(), Shadow("cpu") as shadow:
        net(X.to(dtype))
    (guilty,) = shadow.guilty
    assert guilty.operator == "jumar_test::twice"
    assert guilty.layer == "Net.block.0"
    assert guilty.shapes == ((6, 8),)
    assert guilty.dtype == str(dtype).removeprefix("torch.")
    ratio = guilty.numbers["got"] / guilty.numbers["wanted"]
    assert ratio == pytest.approx(1.01, abs=0.01)


def test_a_right_model_is_no_alarm():
    net = Net(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU()))
    with torch.no_grad(), Shadow("cpu") as shadow:
        net(X)
    assert shadow.guilty == []
    assert shadow.coverage.compared >= 4


@pytest.mark.skipif(not prepacking.available(), reason="no oneDNN here")
def test_a_model_whose_weights_lie_in_blocks_is_judged_in_all_that_is_dense():
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU())
    assert prepacking.prepack(model).layers == 1
    with torch.inference_mode(), Shadow("cpu") as shadow:
        model(torch.randn(3, 256))
    assert shadow.coverage.compared == 1 and not shadow.guilty
    assert shadow.coverage.left_out["takes tensors that are not dense"].total() == 1


def test_outside_of_the_shadow_nothing_is_judged():
    shadow = Shadow("cpu")
    with shadow:
        pass
    torch.ops.jumar_test.twice(X)
    assert shadow.guilty == []
    assert shadow.coverage.seen == 0


def test_what_raises_where_the_cpu_has_no_answer_either_is_raised():
    with Shadow("cpu") as shadow, pytest.raises(RuntimeError, match="no such kernel"):
        torch.ops.jumar_test.lost(X)
    assert shadow.guilty == []


@pytest.mark.parametrize("bad", [{"every": 0}, {"budget": 0}, {"budget": 2}])
def test_numbers_out_of_range_are_refused(bad):
    with pytest.raises(InvalidValue):
        Shadow("cpu", **bad)


def test_a_device_that_torch_does_not_have_is_refused():
    with pytest.raises(InvalidValue, match="no device"):
        Shadow("tpu:0")


@pytest.mark.parametrize(
    ("op", "args", "terms"),
    [
        (aten.mm.default, (torch.ones(3, 50), torch.ones(50, 4)), 50),
        (aten.addmm.default, (torch.ones(4), torch.ones(3, 50), torch.ones(50, 4)), 50),
        (aten.bmm.default, (torch.ones(2, 3, 50), torch.ones(2, 50, 4)), 50),
        (aten.add.Tensor, (torch.ones(3, 50), torch.ones(3, 50)), 1),
        (aten.gelu.default, (torch.ones(3, 50),), 1),
        (aten.sum.dim_IntList, (torch.ones(3, 50), [0, 1]), 150),
        (aten._softmax.default, (torch.ones(3, 50), -1, False), 50),
        (
            aten.convolution.default,
            (torch.ones(1, 6, 9, 9), torch.ones(2, 6, 3, 3), None, [1, 1], [0, 0], [1, 1],
             False, [0, 0], 1),
            54,
        ),
    ],
    ids=lambda value: value.name() if hasattr(value, "name") else "",
)  # fmt: skip
def test_torch_tells_how_much_is_summed(op, args, terms):
    assert facts.terms(op, args, {}, op(*args)) == terms


@pytest.mark.parametrize(
    ("op", "leaves", "reason"),
    [
        (aten.view.default, [X], "moves no numbers"),
        (aten.squeeze_.default, [X], "moves no numbers"),
        (aten.empty_like.default, [X], "not written yet"),
        (aten.bernoulli_.float, [X, 0.5, torch.Generator()], "random"),
        (aten.mm.default, [X, X.to_sparse()], "not dense"),
        (aten.mm.default, [X, X], None),
        (aten.add_.Tensor, [X, X], None),
    ],
)
def test_torch_tells_what_cannot_be_compared(op, leaves, reason):
    told = facts.not_compared(op, leaves)
    assert (told is None) == (reason is None)
    assert reason is None or reason in told


def test_positions_of_equal_values_are_a_tie():
    x = torch.tensor([[1.0, 3.0, 3.0], [2.0, 0.0, 2.0]]).double()
    one, other, wrong = torch.tensor([1, 0]), torch.tensor([2, 2]), torch.tensor([0, 0])
    assert facts.is_tie(aten.argmax.default, (x, 1), {}, one, other)
    assert not facts.is_tie(aten.argmax.default, (x, 1), {}, one, wrong)
    assert not facts.is_tie(aten.argmax.default, (x, 1), {}, one, torch.tensor([3, 0]))
    assert facts.is_tie(aten.argmax.default, (x,), {}, torch.tensor(1), torch.tensor(2))
    assert facts.is_tie(aten.argmax.default, (x, None), {}, torch.tensor(1), torch.tensor(2))


@pytest.mark.parametrize("dim", [None, 0, -1])
def test_the_only_position_in_one_number_is_the_first(dim):
    one = torch.tensor(2.0)
    assert facts.is_tie(aten.argmax.default, (one, dim), {}, torch.tensor(0), torch.tensor(0))
    assert not facts.is_tie(aten.argmax.default, (one, dim), {}, torch.tensor(0), torch.tensor(1))


def test_a_count_along_several_dimensions_is_no_position():
    x, count = torch.ones(2, 3), torch.tensor(6)
    assert not facts.is_tie(aten.count_nonzero.dim_IntList, (x, [0, 1]), {}, count, count - 1)


def test_the_worst_call_of_a_subject_speaks_for_all():
    mild = Guilty("aten::mm", "wrong", "a", shapes=((2, 2),), numbers={"ulps": 3.0}, layer="m")
    bad = Guilty("aten::mm", "wrong", "b", shapes=((2, 2),), numbers={"ulps": 9.0}, layer="n")
    worst = mild.worse(bad)
    assert (worst.reason, worst.layer, worst.calls) == ("b", "n", 2)
    assert bad.worse(mild) == worst
    lost = Guilty("aten::mm", "wrong", "c", shapes=((2, 2),), numbers={"got": "nan"})
    assert worst.worse(lost).reason == "c"


def test_evidence_of_it_says_where_and_how():
    guilty = Guilty(
        "aten::mm", "wrong", "off", shapes=((3, 5),), dtype="float16", layer="Net.first",
        numbers={"ulps": 9.0}, reproducer="print()",
    )  # fmt: skip
    record = guilty.evidence({"device_class": "npu-emulated"}, 5.0)
    assert record.subject == Subject(
        operator="aten::mm", implementation="device", shape_class="4x8", dtype="float16"
    )
    assert (record.found_by, record.layer, record.shapes) == ("shadow", "Net.first", [[3, 5]])
    assert record.numbers == {"ulps": 9.0, "calls": 1}


def test_coverage_counts_by_reason_and_says_so():
    coverage = Coverage(seen=5, compared=2)
    for name in ("aten::view", "aten::view", "aten::empty"):
        coverage.leave_out("moves no numbers" if "view" in name else "gives memory", name)
    assert coverage.lines() == [
        "2 of 5 calls compared",
        "2 moves no numbers: view",
        "1 gives memory: empty",
    ]
    assert sum(sum(ops.values()) for ops in coverage.left_out.values()) == 3


def test_layers_follow_forwards_also_through_errors():
    class Fails(torch.nn.Module):
        def forward(self, x):
            seen.append(layers.current)
            raise ValueError

    seen, modules = [], []
    net = Net(Fails())
    with Layers(modules.append) as layers:
        with pytest.raises(ValueError):
            net(X)
        assert layers.current is None
        with pytest.raises(ValueError):
            torch.nn.Sequential(net)(X)
    assert seen == ["Net.block.0", "Sequential.0.block.0"]
    assert net in modules
    assert not torch.nn.modules.module._global_forward_pre_hooks


def test_a_hang_an_abort_and_an_error_name_the_operator_that_they_happened_in():
    from tests.lab import shadowed

    from jumar.isolate import Zygote
    from jumar.lab.shadow.watched import judged

    with Zygote(["torch"]) as zygote:
        for ends, kind in (("hang", "hangs"), ("abort", "aborts")):
            found = judged(shadowed.work, [ends], "cpu", zygote, loading=120, silence=8)
            assert [(one.operator, one.kind) for one in found.guilty] == [
                ("jumar_shadowed::ends", kind)
            ]
            assert found.ended is not None
        found = judged(shadowed.work, ["well"], "cpu", zygote, loading=120, silence=60)
        assert (found.guilty, found.ended) == ([], None)
        assert found.coverage.compared
        assert math.isfinite(found.coverage.seen)


@pytest.mark.parametrize(
    ("script", "raises", "shown"),
    [
        ("raise SystemExit(1)", False, True),
        ("raise SystemExit(0)", False, False),
        ("print('all is well')", True, False),
        ("raise RuntimeError('coreDim')", True, True),
        ("raise RuntimeError('something else broke')", False, False),
    ],
)
def test_a_script_is_tried_and_shows_what_it_says_or_nothing(script, raises, shown):
    from jumar.lab.shadow.reproducer import _shows

    assert _shows(script, raises=raises) == shown
