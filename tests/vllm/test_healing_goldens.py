"""Golden answers of a served model: what is recorded is what transformers says, an engine that says
it passes, and one that says something else, or is used for something else, does not."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
from tests.vllm import references

from jumar.contracts.errors import InvalidInput, ParityFailed
from jumar.lab.golden.files import read
from jumar.vllm.healing.goldens import GOLDEN, hold, requests
from jumar.vllm.healing.recording import record

POOLED = {"bert": None, "qwen3": "embeddings", "bert_classes": None}
"""What each is recorded for: None is what the checkpoint says."""


class Client:
    """vLLM's client of an engine, for one in this process."""

    def __init__(self, llm: Any) -> None:
        self.llm, self.model_config = llm, llm.llm_engine.vllm_config.model_config

    async def encode(self, prompt: Any, params: Any, name: str) -> AsyncIterator[Any]:
        yield self.llm.encode([prompt], params, pooling_task=params.task, use_tqdm=False)[0]


def server(runner: str, pooling: str | None = None, length: int = 2048) -> Any:
    """An engine that must not be asked: what its configuration says is enough."""
    pooler = None if pooling is None else SimpleNamespace(seq_pooling_type=pooling)
    config = SimpleNamespace(
        runner_type=runner, pooler_config=pooler, max_model_len=length, dtype="torch.float32"
    )
    return SimpleNamespace(model_config=config)


# ---- what is recorded ---------------------------------------------------------------------------


def test_a_checkpoint_says_what_it_is_for(tiny: Callable[[str], Path], tmp_path: Path) -> None:
    tasks = {name: read(record(str(tiny(name)), tmp_path / name).parent).task for name in
             ("qwen3", "bert", "bert_classes")}  # fmt: skip
    assert tasks == {"qwen3": "text", "bert": "embeddings", "bert_classes": "classification"}


@pytest.mark.parametrize(("name", "pooling", "at"), [("bert", "cls", 0), ("qwen3", "last", -1)])
def test_a_vector_is_the_one_of_the_token_that_pools(
    name: str, pooling: str, at: int, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tiny(name)
    golden = read(record(str(folder), tmp_path, task="embeddings").parent)
    wanted = references.vectors(folder, [one.inputs["prompt"] for one in golden.requests], at)
    assert {one.inputs["pooling"] for one in golden.requests} == {pooling}
    for request, vector in zip(golden.requests, wanted, strict=True):
        told = golden.references[0].answers[request.name]["vector.0"].value
        assert abs(told - vector.numpy()).max() < 1e-6


@pytest.mark.parametrize(
    ("settings", "quantity", "activation"),
    [
        ({}, "probability", lambda logits: logits.softmax(-1)),
        ({"problem_type": "multi_label_classification"}, "probability", lambda one: one.sigmoid()),
        ({"problem_type": "regression"}, "logit", lambda logits: logits),
        (
            {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}},
            "logit",
            lambda logits: logits,
        ),
    ],
)
def test_classes_are_what_the_checkpoint_makes_of_its_logits(
    settings: dict[str, Any],
    quantity: str,
    activation: Callable[[Any], Any],
    tiny: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    import torch
    from transformers import BertForSequenceClassification

    folder = tmp_path / "model"
    model = BertForSequenceClassification.from_pretrained(tiny("bert_classes"))
    model.save_pretrained(folder)
    for file in tiny("bert_classes").glob("tokenizer*"):
        (folder / file.name).symlink_to(file)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **settings}))
    golden = read(record(str(folder), tmp_path / "golden").parent)
    for request in golden.requests:
        told = golden.references[0].answers[request.name]["classes.0"]
        with torch.inference_mode():
            logits = model.eval()(torch.tensor([request.inputs["prompt"]])).logits[0]
        assert told.quantity == quantity
        assert abs(told.value - activation(logits).numpy()).max() < 1e-5


@pytest.mark.parametrize(
    ("told", "pooling"),
    [({"pooling_mode_mean_tokens": True}, "mean"), ({"pooling_mode": "last"}, "last")],
)
def test_sentence_transformers_own_files_say_how_it_pools(
    told: dict[str, Any], pooling: str, tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = sentences(tiny("bert"), tmp_path, told)
    golden = read(record(str(folder), tmp_path / "golden").parent)
    assert {one.inputs["pooling"] for one in golden.requests} == {pooling}


@pytest.mark.parametrize(
    ("told", "more", "why"),
    [
        ({"pooling_mode_max_tokens": True}, (), "pools in another way"),
        ({"pooling_mode": "mean"}, ("Dense",), "has more modules: Dense"),
    ],
)
def test_what_it_makes_of_them_and_is_not_recorded_here_is_refused(
    told: dict[str, Any],
    more: tuple[str, ...],
    why: str,
    tiny: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    folder = sentences(tiny("bert"), tmp_path, told, *more)
    with pytest.raises(InvalidInput, match=why):
        record(str(folder), tmp_path / "golden")


def sentences(model: Path, folder: Path, told: dict[str, Any], *more: str) -> Path:
    """`model` with the files that Sentence Transformers writes beside it."""
    made = folder / "model"
    made.mkdir()
    for file in model.iterdir():
        (made / file.name).symlink_to(file)
    modules = [("Transformer", ""), ("Pooling", "1_Pooling"), *((one, one) for one in more)]
    listed = [{"type": f"sentence_transformers.models.{a}", "path": b} for a, b in modules]
    (made / "modules.json").write_text(json.dumps(listed))
    (made / "1_Pooling").mkdir()
    (made / "1_Pooling" / "config.json").write_text(json.dumps(told))
    return made


# ---- what an engine is held to ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "engine", "what"),
    [
        ("embeddings", server("generate"), "of embeddings; this server's runner is generate"),
        ("text", server("pooling", "LAST"), "of text; this server's runner is pooling"),
        ("embeddings", server("pooling", "CLS"), "pooled by last; this server pools by cls"),
        ("embeddings", server("pooling", "LAST", length=64), "this server takes 64"),
    ],
)
def test_answers_of_another_use_of_the_model_are_refused(
    task: str,
    engine: Any,
    what: str,
    tiny: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(GOLDEN, str(record(str(tiny("qwen3")), tmp_path, task=task).parent))
    with pytest.raises(InvalidInput, match=what):
        asyncio.run(hold(engine))


def test_a_caller_would_ask_the_same_of_the_route_that_it_has(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    recorded = record(str(tiny("bert")), tmp_path).parent
    made = requests(recorded)
    assert {one.path for one in made} == {"/v1/embeddings"}
    wanted = [one.inputs["prompt"] for one in read(recorded).requests]
    assert [one.body["input"] for one in made] == wanted


@pytest.mark.parametrize("name", POOLED)
def test_an_engine_that_pools_is_held_to_what_transformers_says(
    name: str,
    tiny: Callable[[str], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With attention that is scaled wrong it does not pass."""
    pytest.importorskip("vllm")
    from tests.vllm.engines import engine
    from tests.vllm.test_parity_controls import attention

    recorded = record(str(tiny(name)), tmp_path, task=POOLED[name]).parent
    monkeypatch.setenv(GOLDEN, str(recorded))
    whole = {"max_num_batched_tokens": 2048, "num_gpu_blocks_override": None}
    whole["max_model_len"] = 1024 if name == "qwen3" else 512
    with engine(tiny(name), runner="pooling", enable_prefix_caching=False, **whole) as llm:
        logger = logging.getLogger("vllm.jumar")  # what a server shows
        logger.addHandler(caplog.handler)
        try:
            asyncio.run(hold(Client(llm)))
        finally:
            logger.removeHandler(caplog.handler)
        assert "Golden answers matched: 4 prompts" in caplog.text
        for impl in attention(llm):
            monkeypatch.setattr(impl, "formula", replace(impl.formula, scale=impl.scale * 1.5))
        with pytest.raises(ParityFailed, match="golden answers do not match"):
            asyncio.run(hold(Client(llm)))
