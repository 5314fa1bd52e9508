"""A real `vllm serve` on Jumar's platform, asked over HTTP; when it is stopped nothing is left."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.vllm import references
from tests.vllm.serving import Server, serve

pytest.importorskip("vllm")

COUNT = 16


@pytest.fixture(scope="module")
def server(
    tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("serve") / "log"
    with serve(tiny("qwen3"), log, "--max-num-batched-tokens", "128") as server:
        yield server


@pytest.fixture(scope="module")
def wanted(tiny: Callable[[str], Path]) -> list[list[int]]:
    return references.greedy(tiny("qwen3"), references.MIXED, COUNT)


def completion(server: Server, prompt: list[int], **body: object) -> dict:
    return server.post(
        "/v1/completions",
        prompt=prompt,
        temperature=0,
        max_tokens=COUNT,
        ignore_eos=True,
        return_token_ids=True,
        **body,
    )["choices"][0]


def test_it_says_what_runs(server: Server) -> None:
    [model] = server.client.get("/v1/models").json()["data"]
    assert model["id"] == "served"
    log = server.log.read_text()
    assert "Jumar's platform is active" in log


def test_concurrent_completions_are_each_the_one_of_transformers(
    server: Server, wanted: list[list[int]]
) -> None:
    with ThreadPoolExecutor(8) as callers:
        made = list(callers.map(lambda one: completion(server, one), references.MIXED))
    assert [one["token_ids"] for one in made] == wanted


def test_a_stream_has_the_text_of_the_whole_answer(server: Server) -> None:
    whole = server.chat("What is 7 times 8?", COUNT)
    body = {
        "model": "served",
        "messages": [{"role": "user", "content": "What is 7 times 8?"}],
        "temperature": 0,
        "max_tokens": COUNT,
        "stream": True,
    }
    with server.client.stream("POST", "/v1/chat/completions", json=body) as lines:
        events = [line[6:] for line in lines.iter_lines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    pieces = [json.loads(one)["choices"][0] for one in events[:-1]]
    text = "".join(one["delta"].get("content") or "" for one in pieces)
    assert text == whole["message"]["content"]
    assert len(pieces) > 3, "it came in one piece"
    assert pieces[-1]["finish_reason"] == whole["finish_reason"]


def test_an_answer_keeps_to_the_choices_it_is_given(server: Server) -> None:
    choices = ["ice axe", "rope"]
    free = server.chat("Which?", COUNT)["message"]["content"]
    bound = server.chat("Which?", COUNT, structured_outputs={"choice": choices})
    assert bound["message"]["content"] in choices
    assert free not in choices


def test_an_answer_keeps_to_a_schema(server: Server) -> None:
    schema = {
        "type": "object",
        "properties": {"metres": {"type": "integer", "minimum": 1, "maximum": 9}},
        "required": ["metres"],
        "additionalProperties": False,
    }
    kind = {"type": "json_schema", "json_schema": {"name": "height", "schema": schema}}
    made = server.chat("How high?", 48, response_format=kind)["message"]["content"]
    assert 1 <= json.loads(made)["metres"] <= 9


def test_log_probabilities_are_those_of_transformers(
    server: Server, tiny: Callable[[str], Path]
) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    asked = references.MIXED[3]
    made = completion(server, asked, logprobs=3)
    model = AutoModelForCausalLM.from_pretrained(tiny("qwen3"), dtype=torch.float32).eval()
    tokens = torch.tensor([[*asked, *made["token_ids"]]])
    with torch.inference_mode():
        logits = model(tokens).logits[0, len(asked) - 1 : -1]
    theirs = logits.log_softmax(-1).gather(1, tokens[0, len(asked) :, None]).flatten()
    ours = torch.tensor(made["logprobs"]["token_logprobs"])
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_metrics_count_what_was_answered(server: Server) -> None:
    def generated() -> float:
        text = server.client.get("/metrics").text
        return sum(
            float(value)
            for value in re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", text, re.M)
        )

    before = generated()
    completion(server, references.MIXED[0])
    assert generated() - before == COUNT
