"""oneDNN multiplies by weights in blocks of its own: the same products, or none of them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from jumar.devices import prepacking
from jumar.devices.prepacking import LEAST, prepack, prepacked, product

pytestmark = pytest.mark.skipif(not prepacking.available(), reason="no oneDNN here")

WIDE, HIGH = 256, LEAST // 256


@settings(deadline=None, max_examples=40)
@given(
    rows=st.integers(0, 70),
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 300),
    biased=st.booleans(),
    seed=st.integers(0, 99),
)
def test_products_are_torchs_within_what_another_order_of_adding_up_may_differ(
    rows: int, inputs: int, outputs: int, biased: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs) if biased else None
    given = torch.randn(rows, inputs)
    blocks = prepacked(weight)
    assert blocks is not None
    found = product(given, blocks, bias)
    wanted = nn.functional.linear(
        given.double(), weight.double(), None if bias is None else bias.double()
    )
    most = nn.functional.linear(given.abs(), weight.abs(), None if bias is None else bias.abs())
    assert ((found - wanted).abs() <= (inputs + 1) * torch.finfo(torch.float32).eps * most).all()


def test_a_layer_answers_as_before_for_any_number_of_leading_axes():
    layer = nn.Linear(WIDE, HIGH).eval()
    given = [torch.randn(*shape, WIDE) for shape in ((), (5,), (2, 3), (2, 1, 4))]
    with torch.inference_mode():
        wanted = [layer(one) for one in given]
        assert prepack(layer).layers == 1
        for one, expected in zip(given, wanted, strict=True):
            torch.testing.assert_close(layer(one), expected)


READS = {
    "linear": lambda weight, given: nn.functional.linear(given, weight),
    "matmul": lambda weight, given: weight @ given.T,
    "t": lambda weight, given: given @ weight.t(),
    "T": lambda weight, given: given @ weight.T,
    "chunk": lambda weight, given: torch.cat([given @ one.T for one in weight.chunk(3)], 1),
    "rows": lambda weight, _: weight[1:5, None],
    "view": lambda weight, _: weight.view(2, -1),
    "joined": lambda weight, _: torch.cat((weight, weight)),
    "another dtype": lambda weight, _: weight.double(),
    "numbers of its own": lambda weight, _: (weight * 2 + 1).norm(dim=0),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
def test_a_model_that_reads_a_layers_weight_itself_computes_as_before(read, mode):
    layer, given = nn.Linear(WIDE, HIGH), torch.randn(3, WIDE)
    layer.requires_grad_(False)
    with mode():
        wanted = read(layer.weight, given)
        assert prepack(layer).layers == 1
        found = read(layer.weight, given)
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize(
    "write",
    [
        lambda weight: weight.copy_(torch.zeros(HIGH, WIDE)),
        lambda weight: weight.fill_(0),
        lambda weight: weight.data.copy_(torch.zeros(HIGH, WIDE)),
        lambda weight: weight.detach().fill_(0),
        lambda weight: weight.__setitem__(0, 0.0),
        lambda weight: weight.__iadd__(torch.ones(WIDE)),
        lambda weight: nn.init.normal_(weight),
    ],
)
def test_whoever_writes_to_a_weight_in_blocks_is_told(write):
    layer, given = nn.Linear(WIDE, HIGH), torch.randn(3, WIDE)
    layer.requires_grad_(False)
    prepack(layer)
    before = layer(given)
    with pytest.raises(RuntimeError):
        write(layer.weight)
    assert torch.equal(layer(given), before)


def test_layers_of_torch_that_take_several_at_once_compute_as_before():
    block = nn.TransformerEncoderLayer(WIDE, 4, HIGH, batch_first=True).eval()
    given = torch.randn(2, 5, WIDE)
    with torch.inference_mode():
        wanted = block(given)
        assert prepack(block).layers == 2
        torch.testing.assert_close(block(given), wanted)


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.spectral_norm])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_a_weight_that_is_computed_from_others_stays_so(norm):
    layer, given = norm(nn.Linear(WIDE, HIGH)).eval(), torch.randn(3, WIDE)
    wanted = layer(given)
    assert prepack(nn.Sequential(layer)).layers == 0
    assert torch.equal(layer(given), wanted)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(HIGH, WIDE)
        self.head = nn.Linear(WIDE, HIGH, bias=False)
        self.head.weight = self.words.weight


class OwnLinear(nn.Linear):
    """Whoever derives from Linear may read the weight in a way of his own."""


@pytest.mark.parametrize(
    "model",
    [
        Tied(),
        OwnLinear(WIDE, HIGH),
        nn.Linear(WIDE, HIGH).half(),
        nn.Linear(4, 3),
        nn.Conv1d(WIDE, HIGH, 1),
    ],
    ids=["shared", "a class of its own", "half precision", "small", "no linear layer"],
)
def test_what_may_be_read_otherwise_or_is_not_worth_it_stays_as_it_was(model: nn.Module) -> None:
    before = {name: one.clone() for name, one in model.state_dict().items()}
    told = prepack(model)
    assert told.layers == 0 and not told.refused
    for name, one in model.state_dict().items():
        assert one.layout == torch.strided and torch.equal(one, before[name])


def test_a_layer_whose_product_is_wrong_stays_with_torch_and_is_named(monkeypatch):
    true = prepacking.product
    monkeypatch.setattr(prepacking, "product", lambda *given: true(*given) * 1.001)
    model = nn.Sequential(nn.Linear(WIDE, HIGH))
    told = prepack(model)
    assert told.layers == 0 and model[0].weight.layout == torch.strided
    assert told.refused == ["0: oneDNN's product is not torch's"]


@pytest.mark.parametrize("machine", ["aarch64", "riscv64"])
def test_another_processor_than_x86_keeps_torchs_products(machine, monkeypatch):
    monkeypatch.setattr(prepacking.platform, "machine", lambda: machine)
    model = nn.Linear(WIDE, HIGH)
    assert prepack(model).layers == 0 and model.weight.layout == torch.strided
