"""Golden requests for whoever has none of his own: what each task is asked.

A fault of a kernel shows only on some inputs: an ignored padding mask in a batch of unlike lengths,
an ignored window beyond it, a wrong cache at the limit. So each task is asked short and long, alone
and in company; where the answer must not depend on the company, `same_as` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Any

from jumar.contracts.errors import InvalidRequest
from jumar.lab.golden.base import Request

SHORT = "A cat sat on the mat."
OTHER = "Interest rates were raised by a quarter of a point on Tuesday."
NON_LATIN = ["猫坐在垫子上。", "Кошка сидела на коврике.", "جلست القطة على السجادة.", "🐈 ⛰️"]
_WORDS = ("rope", "wall", "hand", "ice", "snow", "rock", "wind", "night", "stone", "light", "foot")
_USUAL = 512
"""Tokens of the longest text, where the model does not say."""


@dataclass(frozen=True)
class Facts:
    """What the requests are made for. `longest` in tokens; `config` the keys that the model has;
    `speech` a sound file to transcribe.
    """

    longest: int | None = None
    config: frozenset[str] = frozenset()
    speech: str | None = None


def usual_requests(task: str, facts: Facts) -> tuple[Request, ...]:
    """The requests for a task.

    Raises:
        InvalidRequest: nobody wrote requests for this task: bring your own.
    """
    if task not in _TASKS or (task == "audio2text" and facts.speech is None):
        raise InvalidRequest(
            f"There are no golden requests for {task}.",
            hint="Bring your own: --requests FILE (a list of name, inputs, config).",
        )
    return tuple(_TASKS[task](facts))


def _words(count: int) -> str:
    """`count` words that most vocabularies have whole, in an order without a short period."""
    return " ".join(
        word + "s" * (n // 97 % 2) for n, word in enumerate(islice(cycle(_WORDS), count))
    )


def _embeddings(facts: Facts) -> list[Request]:
    limit = (facts.longest or _USUAL) - 2  # a special token at each end
    long, full = _words(limit // 2), _words(limit)
    texts = _texts

    return [
        texts("short", "short", SHORT),
        texts("other", "short", OTHER),
        texts("long", "long", long),
        texts("at-limit", "at-limit", full),
        texts("over-limit", "over-limit", _words(2 * limit), vector_0="at-limit/vector.0"),
        texts(
            "padded", "padded", SHORT, full,
            vector_0="short/vector.0", vector_1="at-limit/vector.0",
        ),
        texts(
            "batched", "batched", SHORT, OTHER, long, *NON_LATIN[:2], OTHER,
            vector_0="short/vector.0", vector_1="other/vector.0", vector_2="long/vector.0",
            vector_5="other/vector.0",
        ),
        texts(
            "permuted", "permuted", long, OTHER, SHORT,
            vector_0="long/vector.0", vector_1="other/vector.0", vector_2="short/vector.0",
        ),
        texts("repeated", "repeated", OTHER, OTHER, vector_1="repeated/vector.0"),
        texts("non-latin", "non-latin", *NON_LATIN),
    ]  # fmt: skip


def _texts(name: str, covers: str, *texts: str, **same_as: str) -> Request:
    wanted = {answer.replace("_", "."): other for answer, other in same_as.items()}
    return Request(name, {"texts": list(texts)}, {}, (covers,), wanted)


def _classification(facts: Facts) -> list[Request]:
    """Probabilities; a token head answers with spans, which needs requests of one's own."""
    long = _words(((facts.longest or _USUAL) - 2) // 2)
    return [
        _texts("short", "short", SHORT),
        _texts("other", "short", OTHER),
        _texts("long", "long", long),
        _texts(
            "batched", "batched", SHORT, OTHER, long, *NON_LATIN[:2],
            probability_0="short/probability.0", probability_1="other/probability.0",
            probability_2="long/probability.0",
        ),
        _texts(
            "permuted", "permuted", long, SHORT,
            probability_0="long/probability.0", probability_1="short/probability.0",
        ),
        _texts("repeated", "repeated", OTHER, OTHER, probability_1="repeated/probability.0"),
        _texts("non-latin", "non-latin", *NON_LATIN),
    ]  # fmt: skip


def _reranking(facts: Facts) -> list[Request]:
    def asked(name: str, covers: str, *texts: str, **same_as: str) -> Request:
        wanted = {answer.replace("_", "."): other for answer, other in same_as.items()}
        inputs = {"query": ["Where did the cat sit?"], "texts": list(texts)}
        return Request(name, inputs, {}, (covers,), wanted)

    long = _words((facts.longest or _USUAL) // 2)
    return [
        asked("short", "short", SHORT),
        asked("long", "long", long),
        asked("batched", "batched", OTHER, SHORT, long, logit_1="short/logit.0",
              logit_2="long/logit.0"),
        asked("repeated", "repeated", OTHER, OTHER, logit_1="repeated/logit.0"),
        asked("non-latin", "non-latin", *NON_LATIN),
    ]  # fmt: skip


def _entailment(facts: Facts) -> list[Request]:
    """Pairs, of which decisions are made."""
    follows = "There is a cat."

    def asked(name: str, covers: str, texts: list[str], *beside: str, **same_as: str) -> Request:
        wanted = {answer.replace("_", "."): other for answer, other in same_as.items()}
        inputs = {"texts": texts, "hypotheses": list(beside)}
        return Request(name, inputs, {}, (covers,), wanted)

    long = _words((facts.longest or _USUAL) // 2)
    return [
        asked("short", "short", [SHORT], follows),
        asked("against", "short", [SHORT], "There is no cat."),
        asked("long", "long", [long], follows),
        asked("batched", "batched", [OTHER, SHORT, long], follows, logit_1="short/logit.0",
              logit_2="long/logit.0"),
        asked("permuted", "permuted", [SHORT, SHORT], "There is no cat.", follows,
              logit_0="against/logit.0", logit_1="short/logit.0"),
        asked("repeated", "repeated", [OTHER, OTHER], follows, logit_1="repeated/logit.0"),
        asked("non-latin", "non-latin", NON_LATIN, follows),
    ]  # fmt: skip


def _prompts(quantity: str, prompts: Mapping[str, str], config: Mapping[str, Any]) -> list[Request]:
    made = [Request(name, {"prompt": text}, config, (name,)) for name, text in prompts.items()]
    first = next(iter(prompts))
    again = {f"{quantity}.0": f"{first}/{quantity}.0"}
    return [*made, Request("again", {"prompt": prompts[first]}, config, ("repeated",), again)]


def _text2audio(facts: Facts) -> list[Request]:
    config = {"seed": 1} if "seed" in facts.config else {}
    return _prompts("sound", {"short": SHORT, "long": OTHER}, config)


def _text2image(facts: Facts) -> list[Request]:
    wanted = {"seed": 1, "num_inference_steps": 4}
    config = {key: value for key, value in wanted.items() if key in facts.config}
    return _prompts("picture", {"short": "a red seven", "long": f"{OTHER} {_words(40)}"}, config)


def _audio2text(facts: Facts) -> list[Request]:
    same = {"words.0": "short/words.0"}
    return [
        Request("short", {"audio": facts.speech}, {}, ("short",)),
        Request("again", {"audio": facts.speech}, {}, ("repeated",), same),
    ]


_TASKS: dict[str, Callable[[Facts], list[Request]]] = {
    "embeddings": _embeddings,
    "classification": _classification,
    "reranking": _reranking,
    "entailment": _entailment,
    "decisions": _entailment,
    "text2audio": _text2audio,
    "text2image": _text2image,
    "audio2text": _audio2text,
}
