"""Modules, gradients, random numbers and autocast on an emulated card."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.emulated.comparing import CARD, equal, same
from torch import nn

X = torch.randn(2, 3, 8)
PICTURE = torch.randn(1, 3, 6, 6)


@pytest.mark.parametrize(
    ("module", "given"),
    [
        (nn.Linear(8, 4), X),
        (nn.LayerNorm(8), X),
        (nn.RMSNorm(8), X),
        (nn.GroupNorm(1, 3), X),
        (nn.BatchNorm2d(3).eval(), PICTURE),
        (nn.Embedding(10, 4), torch.tensor([[1, 2], [3, 9]])),
        (nn.Conv1d(3, 5, 3, padding=1), X),
        (nn.Conv2d(3, 4, 3), PICTURE),
        (nn.Conv2d(3, 6, 3, groups=3), PICTURE),
        (nn.ConvTranspose2d(3, 4, 3), PICTURE),
        (nn.MaxPool2d(2), PICTURE),
        (nn.AdaptiveAvgPool2d(1), PICTURE),
        (nn.GELU(), X),
        (nn.GLU(), X),
        (nn.PReLU(), X),
        (nn.Softmax(-1), X),
    ],
)
def test_a_module_moves_and_answers_as_on_the_cpu(module, given):
    moved = copy.deepcopy(module).to(CARD)
    assert all(one.device == torch.device(CARD) for one in moved.parameters())
    equal(moved(given.to(CARD)).detach(), module(given).detach(), 1e-6)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_recurrent_layers_run(kind):
    layer = kind(8, 4, batch_first=True)
    equal(copy.deepcopy(layer).to(CARD)(X.to(CARD))[0].detach(), layer(X)[0].detach(), 1e-6)


def test_attention_runs_in_every_form():
    q, k, v = (torch.randn(2, 4, 6, 8) for _ in range(3))
    mask = torch.rand(2, 1, 6, 6) > 0.3
    mask[..., 0] = True
    attend = F.scaled_dot_product_attention
    same(attend, q, k, v, tolerance=1e-5)
    same(lambda q, k, v: attend(q, k, v, is_causal=True), q, k, v, tolerance=1e-5)
    same(lambda q, k, v, m: attend(q, k, v, attn_mask=m), q, k, v, mask, tolerance=1e-5)
    same(lambda q, k, v: attend(q, k[:, :2], v[:, :2], enable_gqa=True), q, k, v, tolerance=1e-5)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    with torch.no_grad():
        equal(copy.deepcopy(layer).to(CARD)(X.to(CARD)), layer(X), 1e-5)


def test_gradients_and_an_optimizer_step():
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
    moved, given = copy.deepcopy(module).to(CARD), torch.randn(3, 4)
    module(given).pow(2).mean().backward()
    moved(given.to(CARD)).pow(2).mean().backward()
    for npu, cpu in zip(moved.parameters(), module.parameters(), strict=True):
        equal(npu.grad, cpu.grad, 1e-5)
    torch.optim.AdamW(moved.parameters(), lr=0.1).step()


def test_gradients_on_the_second_card():
    weight = torch.ones(3, device="npu:1", requires_grad=True)
    (weight * 2).sum().backward()
    assert weight.grad.device == torch.device("npu:1")


def test_generators_are_the_cards_own():
    draw = lambda seed: torch.randn(  # noqa: E731
        5, generator=torch.Generator(CARD).manual_seed(seed), device=CARD
    )
    assert torch.equal(draw(3), draw(3)) and not torch.equal(draw(3), draw(4))
    generator = torch.Generator("npu:1").manual_seed(1)
    assert generator.device == torch.device("npu:1") and generator.initial_seed() == 1
    state = generator.get_state()
    first = torch.rand(3, generator=generator, device="npu:1")
    generator.set_state(state)
    assert torch.equal(first, torch.rand(3, generator=generator, device="npu:1"))


def test_a_generator_of_another_device_is_refused():
    with pytest.raises(RuntimeError, match="npu"):
        torch.randn(2, generator=torch.Generator("cpu"), device=CARD)


@pytest.mark.parametrize("seed", [torch.manual_seed, torch.npu.manual_seed])
def test_seeds_repeat_what_is_drawn(seed):
    seed(5)
    first = torch.randn(4, device=CARD), F.dropout(torch.ones(50, device=CARD))
    seed(5)
    again = torch.randn(4, device=CARD), F.dropout(torch.ones(50, device=CARD))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))


def test_the_state_of_the_random_numbers_can_be_kept():
    state = torch.npu.get_rng_state()
    first = torch.randn(2, device=CARD)
    torch.npu.set_rng_state(state)
    assert torch.equal(first, torch.randn(2, device=CARD))
    with torch.random.fork_rng(devices=[0], device_type="npu"):
        torch.randn(2, device=CARD)


def test_autocast_lowers_products_and_keeps_norms():
    layer, x = nn.Linear(4, 4).to(CARD), torch.randn(2, 4, device=CARD)
    with torch.autocast("npu", dtype=torch.float16):
        y = layer(x)
        assert y.dtype == torch.float16 and torch.is_autocast_enabled("npu")
        assert (x @ x.t()).dtype == torch.float16
        assert y.softmax(-1).dtype == F.layer_norm(y, (4,)).dtype == torch.float32
        q = torch.randn(1, 2, 3, 4, device=CARD)
        assert F.scaled_dot_product_attention(q, q, q).dtype == torch.float16
        with torch.autocast("npu", enabled=False):
            assert layer(x).dtype == torch.float32
    with torch.amp.autocast("npu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    with torch.npu.amp.autocast():
        assert layer(x).dtype == torch.float16
    assert layer(x).dtype == torch.float32


def test_inference_mode_and_threads():
    import threading

    module, x, answers = nn.Linear(8, 8).to(CARD), torch.randn(2, 8, device=CARD), []
    with torch.inference_mode():
        assert module(x).add_(1).is_inference()

    def work():
        with torch.no_grad():
            answers.extend(module(x).sum().item() for _ in range(50))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(answers) == 200 and len(set(answers)) == 1
