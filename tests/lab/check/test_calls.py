"""A call's copies keep layout, sharing and surroundings; rows make hard calls of ordinary ones."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from jumar.lab.check import adversarial, captured, exact, schema, siblings  # noqa: E402
from jumar.lab.check.calls import Call, answered, beside, signature, written  # noqa: E402

MM = torch.ops.aten.mm.default
ADD_ = torch.ops.aten.add_.Tensor


@st.composite
def views(draw):
    """A view of a buffer: offset, transposed, strided or expanded."""
    rows, columns, offset = (draw(st.integers(1, 6)) for _ in range(3))
    base = torch.arange(float(offset + 2 * rows * columns))
    view = base[offset : offset + rows * columns].view(rows, columns)
    return draw(
        st.sampled_from(
            [view, view.t(), base[offset:].as_strided((rows, columns), (0, 2)), view[:, ::2]]
        )
    )


@given(views())
def test_a_copy_has_the_same_numbers_in_the_same_layout(view):
    (copy,) = Call((view,), {}).cloned().args
    assert torch.equal(copy, view)
    assert (copy.stride(), copy.storage_offset()) == (view.stride(), view.storage_offset())
    assert copy.data_ptr() != view.data_ptr()


@given(views())
def test_arguments_that_share_memory_share_it_in_the_copy(view):
    first, second = Call((view, view), {}).cloned().args
    first.untyped_storage().fill_(0)
    assert not second.any()
    assert view.untyped_storage().nbytes() == second.untyped_storage().nbytes()


@given(views())
def test_what_lies_beside_a_view_is_known(view):
    call = Call((view,), {})
    (mask,) = beside(call, [view])
    inside = torch.zeros(mask.numel(), dtype=torch.bool)
    inside.as_strided(view.shape, view.stride(), view.storage_offset()).fill_(True)
    assert torch.equal(mask, ~inside)


def test_signatures_tell_layout_and_sharing_apart():
    a, b = torch.ones(3, 3), torch.ones(3, 3)
    calls = [Call((a, b), {}), Call((a, a), {}), Call((a.t(), b), {}), Call((a, b), {"alpha": 2})]
    assert len({signature(one) for one in calls}) == 4
    assert signature(Call((a, b), {})) == signature(Call((b, a), {}))


def test_what_an_operator_writes_is_read_from_its_schema():
    a, b = torch.ones(3), torch.ones(3)
    assert written(ADD_, Call((a, b), {})) == [a]
    assert written(MM, Call((a, b), {})) == []


def test_each_row_makes_what_its_name_says():
    call = Call((torch.randn(5, 10), torch.randn(10, 4)), {})
    made = dict(adversarial.hardened(MM, [call], vocabulary=True))
    shapes = {name: one.shapes() for name, one in made.items()}
    assert shapes["no rows"] == ((0, 10), (10, 4))
    assert shapes["no columns"] == ((5, 0), (0, 4))
    assert shapes["one row"] == ((1, 10), (10, 4))
    assert shapes["129 columns"] == ((5, 129), (129, 4))
    assert shapes["vocabulary"] == ((4, 151_936), (151_936, 4))
    assert shapes["scalar"] == ((), ())
    assert made["transposed"].args[0].stride() == (1, 5)
    assert made["strided"].args[0].stride() == (20, 2)
    assert made["expanded"].args[0].stride() == (0, 1)
    assert all(one.args[0].isfinite().all() for one in made.values())


def test_padding_is_poison_on_both_sides():
    view = adversarial.padded(torch.zeros(4))
    whole = torch.empty(0).set_(view.untyped_storage())
    assert whole.isnan().sum() == 2 * adversarial.MARGIN and not whole[8:12].any()


def test_the_rows_repeat_values_so_that_they_stay_legal():
    indices = torch.tensor([0, 4, 2])
    assert set(adversarial.tiled(indices, (7, 3)).flatten().tolist()) == {0, 2, 4}


def test_a_square_is_changed_in_one_place_too_where_that_means_one_thing():
    square = {name: one.shapes() for name, one in rows(torch.ones(5, 5), torch.ones(5, 5))}
    assert square["one row"] == ((1, 5), (1, 5))
    with_weight = {name: one.shapes() for name, one in rows(torch.ones(5, 5), torch.ones(5))}
    assert with_weight["one row"] == ((1, 1), (1,))


def rows(*tensors):
    return adversarial.hardened(torch.ops.aten.add.Tensor, [Call(tensors, {})], vocabulary=False)


def test_the_reference_is_exact_where_the_dtype_is_not():
    x = torch.full((1000,), 0.1, dtype=torch.float16)
    answer = exact.wide(torch.ops.aten.sum.default, Call((x,), {}))
    assert answer is not None
    assert answer.results[0].dtype == torch.float64
    assert float(answer.results[0]) == pytest.approx(1000 * float(x[0]), rel=1e-12)


def test_a_sum_that_cancels_may_be_off_by_what_its_inputs_round():
    x = torch.tensor([1e4, 1.0, -1e4], dtype=torch.float32)
    far = exact.magnified(torch.ops.aten.sum.default, Call((x,), {}), lambda a: a.results[0])
    alone = exact.magnified(
        torch.ops.aten.sum.default, Call((x[1:2].clone(),), {}), lambda a: a.results[0]
    )
    assert far is not None and alone is not None
    assert float(far) > 1000 * float(alone)


def test_an_operator_that_no_sample_calls_gets_inputs_by_its_schema():
    calls = list(schema.made_up(torch.ops.aten.threshold_backward.default, torch.float32))
    assert calls
    answered(torch.ops.aten.threshold_backward.default, calls[0].cloned())


@pytest.mark.parametrize(
    ("name", "sibling"),
    [
        ("aten::mm.out", "aten::mm"),
        ("aten::add_.Scalar", "aten::add.Scalar"),
        ("aten::sum.IntList_out", "aten::sum.dim_IntList"),
        ("aten::sort.values_stable", "aten::sort.stable"),
        ("aten::mm", None),
        ("aten::record_stream", None),
        ("silu_and_mul", None),
        ("nobody::has_this", None),
    ],
)
def test_what_writes_has_a_functional_sibling(name, sibling):
    assert siblings.functional(name) == sibling


def test_a_call_of_the_sibling_gets_outputs_that_hold_nothing_of_the_answer():
    x = torch.tensor([[3.0, 1.0, 2.0]])
    sort, out = torch.ops.aten.sort.stable, torch.ops.aten.sort.values_stable
    call = siblings.with_outputs(out, sort, Call((x,), {"stable": True}))
    assert call.kwargs["values"].isnan().all()
    answered(out, call)
    assert call.kwargs["values"].tolist() == [[1.0, 2.0, 3.0]]
    assert call.kwargs["indices"].tolist() == [[1, 2, 0]]


def test_outputs_are_never_one_with_inputs():
    x = torch.randn(3, 3)
    op = torch.ops.aten.mm.out
    call = siblings.with_outputs(op, MM, Call((x, x.clone()), {}))
    made = dict(adversarial.hardened(op, [call], vocabulary=False))
    first, second = made["aliased"].args
    assert first is second and made["aliased"].kwargs["out"] is not first


def test_captured_calls_are_sizes_and_settings_without_numbers(tmp_path):
    table, indices = torch.randn(11, 6), torch.tensor([[3, 9]])
    with captured.capture() as calls:
        torch.nn.functional.embedding(indices, table)
        torch.nn.functional.softmax(table.t(), 0)
    captured.write(calls, tmp_path / "calls.json")
    assert "randn" not in (tmp_path / "calls.json").read_text()
    back = {
        one["operator"]: captured.rebuilt(one) for one in captured.read(tmp_path / "calls.json")
    }
    assert back["aten::embedding"].shapes() == ((11, 6), (1, 2))
    assert back["aten::embedding"].args[1].max() <= 9
    assert back["aten::_softmax"].args[0].stride() == (1, 6)
    answered(torch.ops.aten.embedding.default, back["aten::embedding"])
