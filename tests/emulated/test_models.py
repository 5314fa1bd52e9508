"""Models of the libraries run on an emulated card and answer as on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.emulated.comparing import CARD, equal

from jumar.emulator import noise


def bert():
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
    )
    return BertModel(config).eval()


def test_an_encoder_gives_the_cpus_vectors(tmp_path):
    model, ids = bert(), torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]])
    mask = (ids > 0).long()
    with torch.no_grad():
        cpu = model(ids, attention_mask=mask).last_hidden_state
        model.save_pretrained(tmp_path)
        moved = type(model).from_pretrained(tmp_path).to("npu:1").eval()
        npu = moved(ids.to("npu:1"), attention_mask=mask.to("npu:1")).last_hidden_state
    assert moved.device == torch.device("npu:1")
    equal(npu, cpu, 1e-5)


@pytest.mark.parametrize("mode", ["off", "on"])
def test_a_language_model_writes_the_cpus_tokens(mode):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
    )
    model, ids = Qwen3ForCausalLM(config).eval(), torch.tensor([[1, 2, 3, 4, 5]])
    moved = copy.deepcopy(model).to(CARD)
    write = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with torch.no_grad(), noise(mode, seed=1):
        equal(moved(ids.to(CARD)).logits, model(ids).logits, 1e-5)
        equal(moved.generate(ids.to(CARD), **write), model.generate(ids, **write))
        lower = copy.deepcopy(model).to(CARD, torch.bfloat16)(ids.to(CARD)).logits
    torch.testing.assert_close(lower.float().cpu(), model(ids).logits, atol=0.05, rtol=0.05)


@pytest.mark.parametrize(("name", "mode"), [("sd15", "off"), ("sdxl", "on"), ("flux", "on")])
def test_a_diffusion_pipeline_draws_the_cpus_picture(name, mode):
    from tests.support.tiny_pipelines import build

    pipeline = build(name)

    def draw():
        return pipeline(
            "a photo of a cat",
            height=32,
            width=32,
            num_inference_steps=2,
            generator=torch.Generator().manual_seed(0),
            output_type="pt",
        ).images.float()

    cpu = draw()
    pipeline.to(CARD)
    with noise(mode, seed=2):
        equal(draw(), cpu, 1e-3)


def test_nothing_of_a_model_stays_on_the_card():
    import gc

    gc.collect()
    before = torch.npu.memory_allocated(1)
    model = bert().to("npu:1")
    assert torch.npu.memory_allocated(1) > before
    del model
    gc.collect()
    assert torch.npu.memory_allocated(1) == before
