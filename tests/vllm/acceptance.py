"""The acceptance table of a port of vLLM: row by row on a real `vllm serve`, on what is here.

    JUMAR_VLLM_DEVICE=cpu python -m tests.vllm.acceptance
    JUMAR_EMULATE_NPU=1,noise=off python -m tests.vllm.acceptance

The rows are those with which ports of vLLM to Ascend are accepted (arithmetic, knowledge, primes,
code, pictures, eight requests at once), and what a client needs besides. A model of 135 million
parameters, and tiny ones of random weights, do not know enough to be marked by a teacher: a row
holds where the answer is, token by token, the one of Hugging Face transformers in float32.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.vllm import references
from tests.vllm.models import make
from tests.vllm.pictures import as_url, drawn
from tests.vllm.references import Tokens
from tests.vllm.serving import Server, serve

SMOL, TINY = "SmolLM2-135M-Instruct", "Qwen2-VL of random weights"
ARITHMETIC = "What is 7 times 8?"
KNOWLEDGE = "What is the capital of France?"
PRIMES = "List the first five prime numbers."
CODE = "Write a Python function that returns the square of a number."
EIGHT = (
    KNOWLEDGE,
    "What is the capital of Italy?",
    "Name a colour.",
    "What do bees make?",
    "How many days has a week?",
    "What is ice made of?",
    "Which animal barks?",
    "Say hello in French.",
)
SHORT = 10


@dataclass
class Text:
    """SmolLM2 behind a server, and what transformers says for it."""

    server: Server
    folder: Path

    def tokens(self, question: str, count: int) -> Tokens:
        """What the server answers, without the token that ends it."""
        return self._plain(self.server.chat(question, count)["token_ids"])

    def wanted(self, questions: Sequence[str], count: int) -> list[Tokens]:
        """The same from transformers."""
        asked = [self._prompt(one) for one in questions]
        made = references.greedy(self.folder, asked, count, stop=self._words.eos_token_id)
        return [self._plain(one) for one in made]

    def says(self, tokens: Tokens) -> str:
        """The tokens as text."""
        text: str = self._words.decode(tokens, skip_special_tokens=True)
        return text

    @cached_property
    def _words(self) -> Any:
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.folder)

    def _prompt(self, question: str) -> Tokens:
        turns = [{"role": "user", "content": question}]
        made = self._words.apply_chat_template(turns, add_generation_prompt=True, return_dict=True)
        prompt: Tokens = made["input_ids"]
        return prompt

    def _plain(self, tokens: Tokens) -> Tokens:
        return tokens[:-1] if tokens and tokens[-1] == self._words.eos_token_id else tokens


@dataclass
class Pictures:
    """The tiny vision model behind a server."""

    server: Server
    folder: Path

    def tokens(self, question: str, picture: Any) -> Tokens:
        """What the server answers."""
        parts = [{"type": "text", "text": question}]
        if picture is not None:
            parts.insert(0, {"type": "image_url", "image_url": {"url": as_url(picture)}})
        made: Tokens = self.server.chat(parts, SHORT, ignore_eos=True)["token_ids"]
        return made

    def wanted(self, asked: Sequence[tuple[str, Any]]) -> list[Tokens]:
        """The same from transformers."""
        from transformers import AutoProcessor

        processor = AutoProcessor.from_pretrained(self.folder)
        texts = []
        for question, picture in asked:
            seen = [] if picture is None else [{"type": "image"}]
            turns = [{"role": "user", "content": [*seen, {"type": "text", "text": question}]}]
            texts.append(processor.apply_chat_template(turns, add_generation_prompt=True))
        pictures = [picture for _, picture in asked]
        return references.seen(self.folder, zip(texts, pictures, strict=True), SHORT)


def answered(question: str, count: int, also: Callable[[str], str] = str) -> Callable[[Text], str]:
    """A row: the answer to one question; `also` looks at its text and says it for the table."""

    def row(text: Text) -> str:
        tokens = text.tokens(question, count)
        assert [tokens] == text.wanted([question], count)
        return also(text.says(tokens))

    return row


def valid_python(answer: str) -> str:
    """The code block of an answer, which has to parse."""
    found = re.search(r"```(?:python)?\n(.*?)```", answer, re.S)
    assert found, f"no code in {answer!r}"
    ast.parse(found[1])
    return f"valid Python: {found[1].strip()}"


def concurrent_text(text: Text) -> str:
    """Eight questions at once."""
    with ThreadPoolExecutor(8) as callers:
        made = list(callers.map(lambda one: text.tokens(one, SHORT), EIGHT))
    return _count(made, text.wanted(EIGHT, SHORT))


def streamed(text: Text) -> str:
    """The pieces of a stream are the whole answer."""
    body = {
        "model": "served",
        "messages": [{"role": "user", "content": KNOWLEDGE}],
        "temperature": 0,
        "max_tokens": SHORT,
        "stream": True,
    }
    with text.server.client.stream("POST", "/v1/chat/completions", json=body) as lines:
        events = [line[6:] for line in lines.iter_lines() if line.startswith("data: ")]
    assert events.pop() == "[DONE]"
    pieces = [json.loads(one)["choices"][0]["delta"].get("content") or "" for one in events]
    assert "".join(pieces) == text.says(text.tokens(KNOWLEDGE, SHORT))
    return f"{len(events)} events"


def structured(text: Text) -> str:
    """An answer of a JSON schema."""
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["London", "Paris", "Rome"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
    kind = {"type": "json_schema", "json_schema": {"name": "city", "schema": schema}}
    made = text.server.chat(KNOWLEDGE, 24, response_format=kind)["message"]["content"]
    assert json.loads(made)["city"] in ("London", "Paris", "Rome")
    return f"`{' '.join(made.split())}`"


def log_probabilities(text: Text) -> str:
    """One for each token, none above 0."""
    made = text.server.chat(KNOWLEDGE, SHORT, logprobs=True, top_logprobs=2)["logprobs"]["content"]
    assert made and all(one["logprob"] <= 0 for one in made)
    assert all(one["logprob"] == one["top_logprobs"][0]["logprob"] for one in made), "not greedy"
    return f"{len(made)} tokens, each the likeliest"


def metrics(text: Text) -> str:
    """The server counts the tokens that it makes."""

    def generated() -> int:
        page = text.server.client.get("/metrics").text
        found = re.findall(r"^vllm:generation_tokens_total\{.*\} (\S+)$", page, re.M)
        return int(sum(map(float, found)))

    before = generated()
    made = text.server.chat(KNOWLEDGE, SHORT)["token_ids"]
    assert generated() - before == len(made)
    return f"{len(made)} tokens more after an answer of {len(made)}"


def seen(question: str, letters: str) -> Callable[[Pictures], str]:
    """A row: what is said of a picture with `letters` on it, and not of a blank one."""

    def row(pictures: Pictures) -> str:
        asked = [(question, drawn(48, 32, letters)), (question, drawn(48, 32, ""))]
        made = [pictures.tokens(*one) for one in asked]
        assert made == pictures.wanted(asked)
        assert made[0] != made[1], "it says the same of a blank picture"
        return f"{SHORT} of {SHORT} tokens equal"

    return row


def concurrent_images(pictures: Pictures) -> str:
    """Eight pictures at once."""
    return _at_once(pictures, [("What is it?", drawn(32, 32, letter)) for letter in "abcdefgh"])


def concurrent_mixed(pictures: Pictures) -> str:
    """Four pictures and four texts at once."""
    asked = [("Read it.", drawn(48, 32, letter)) for letter in "wxyz"]
    return _at_once(pictures, [*asked, *((question, None) for question in EIGHT[:4])])


def _at_once(pictures: Pictures, asked: list[tuple[str, Any]]) -> str:
    with ThreadPoolExecutor(8) as callers:
        made = list(callers.map(lambda one: pictures.tokens(*one), asked))
    return _count(made, pictures.wanted(asked))


def _count(made: list[Tokens], wanted: list[Tokens]) -> str:
    assert len(made) == 8
    assert made == wanted
    return "8/8"


TEXT: dict[str, Callable[[Text], str]] = {
    "Arithmetic (7 x 8)": answered(ARITHMETIC, 32),
    "Knowledge (capital of France)": answered(KNOWLEDGE, 16),
    "Prime numbers": answered(PRIMES, 32),
    "Code generation": answered(CODE, 48, valid_python),
    "Concurrent text (8 requests)": concurrent_text,
    "Streaming": streamed,
    "Structured output": structured,
    "Log probabilities": log_probabilities,
    "/metrics": metrics,
}
PICTURES: dict[str, Callable[[Pictures], str]] = {
    "Image description": seen("Describe the picture.", "Hello"),
    "Image OCR": seen("What is written there?", "Hello"),
    "Concurrent images (8 requests)": concurrent_images,
    "Concurrent mixed (8 requests)": concurrent_mixed,
}


def smollm2() -> Path:
    """The folder that `jumar models pull smollm2-135m` prints."""
    from jumar import catalog
    from jumar.runtime.families import family_of
    from jumar.runtime.weights import ensure

    manifest = catalog.get("smollm2-135m")
    return ensure(manifest, converters=family_of(manifest).converters)


def main() -> int:
    """Print the table; the exit status is the number of rows that do not hold."""
    failed = 0
    print("| test | model | answer | as transformers |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        tiny = make("qwen2_vl", Path(place) / "qwen2_vl")
        for kind, rows, folder, model in (
            (Text, TEXT, smollm2(), SMOL),
            (Pictures, PICTURES, tiny, TINY),
        ):
            with serve(folder, Path(place) / "log") as server:
                for name, row in rows.items():
                    try:
                        said, holds = row(kind(server, folder)), "yes"
                    except AssertionError as error:
                        said, holds, failed = f"{error}", "**no**", failed + 1
                    said = said.replace("|", "\\|").replace("\n", " ⏎ ")
                    print(f"| {name} | {model} | {said} | {holds} |", flush=True)
            print(f"| Clean stop | {model} | exit 0, no process left | yes |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
