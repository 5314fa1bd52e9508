"""Typed questions as texts for a classifier to read, and answers from what it says of them.

    asked = Asked.of("I was charged twice.", {"team": {"type": "choice", "choices": ["a", "b"]}})
    asked.texts, asked.hypotheses              # pairs: what is known, and what may follow from it
    asked.answers(head, logits)                # {"team": {"type": "choice", "choice": "a", …}}

An NLI head says of a pair how far the second sentence follows from the first. Each option is made a
sentence (a hypothesis), as Yin et al. 2019 ("Benchmarking Zero-shot Text Classification",
arXiv:1909.00161) do. From its logits e (entailment) and c (contradiction, or not entailment), as
`zero-shot-classification` of transformers has it (e over c is its `multi_label`):

    choice   p(option) = softmax of e over the options
    noul     p = exp(e) / (exp(e) + exp(c)); of two sentences, for yes and for no: as a choice
    set      p(label) as noul, each label by itself
    score    p(level) as choice; score = sum of level * p(level), levels from 0

Span questions are asked of a token head, and read the text alone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidInput, InvalidModelOutput, InvalidQuestion, InvalidRequest
from jumar.reporting.entailment import sides_of
from jumar.reporting.readings import Head, name_of, sigmoid

if TYPE_CHECKING:
    from jumar.contracts.questions import Choice, Noul, Question, Score, Set, Span

TEMPLATE = "This example is {}."
"""The sentence of an option where instructions name none: that of transformers."""


@dataclass(frozen=True)
class Row:
    """One text to read, for the question of this name."""

    name: str
    text: str
    hypothesis: str | None


@dataclass(frozen=True)
class Asked:
    """Questions about a state, and the rows that answer them, in the order of the questions."""

    questions: Mapping[str, Question | InvalidQuestion]
    rows: tuple[Row, ...]

    @classmethod
    def of(
        cls, state: Any, questions: Mapping[str, Any], types: Collection[str] | None = None
    ) -> Asked:
        """Questions as callers write them. `types` are those that the model answers: all that
        sentences can answer, where it does not say.

        Raises:
            InvalidInput: the state is no text.
            InvalidRequest: none of the questions can be asked. One alone is an error in its answer.
        """
        from jumar.contracts.questions import SENTENCES, parsed

        parts = _parts(state)
        found = parsed(questions, types or SENTENCES)
        rows: list[Row] = []
        for name, question in found.items():
            if not isinstance(question, InvalidQuestion):
                try:
                    rows += _rows(name, question, parts)
                except InvalidQuestion as error:
                    found[name] = error
        if not rows:
            said = [str(one) for one in found.values()] or ["There is none."]
            raise InvalidRequest(
                f"No question can be answered. {said[0]}",
                hint=" ".join(said[1:5]) or None,
                param="questions",
            )
        return cls(found, tuple(rows))

    @property
    def task(self) -> str:
        """What a model does to answer: it tells what follows, or labels stretches of the text."""
        return "classification" if self.rows[0].hypothesis is None else "entailment"

    @property
    def inputs(self) -> dict[str, list[str]]:
        """The inputs of that task."""
        texts = {"texts": [row.text for row in self.rows]}
        pairs = [row.hypothesis for row in self.rows if row.hypothesis is not None]
        return {**texts, "hypotheses": pairs} if pairs else texts

    def answers(self, head: Head, values: Sequence[Any]) -> dict[str, dict[str, Any]]:
        """The answer to each question, or its error: plain data.

        `values` has for each row the logits [labels], or the spans of a token head.
        """
        own: dict[str, list[Any]] = {}
        for row, value in zip(self.rows, values, strict=True):
            own.setdefault(row.name, []).append(value)
        found: dict[str, dict[str, Any]] = {}
        for name, question in self.questions.items():
            if isinstance(question, InvalidQuestion):
                found[name] = {"error": question.envelope()["error"]}
                continue
            try:
                answered = _ANSWERS[question.type](question, head, own[name])
            except InvalidQuestion as error:
                answered = {"error": error.envelope()["error"]}
            found[name] = {"type": question.type, **answered}
        return found

    def blamed(self, error: InvalidInput) -> InvalidInput:
        """An error about a row as one about the state and a question, which callers know."""
        place = (error.param or "").removeprefix("inputs.texts.")
        if not place.isdigit() or int(place) >= len(self.rows):
            return error
        row = self.rows[int(place)]
        _, _, what = error.message.partition(" has ")
        beside = "" if row.hypothesis is None else " with a sentence of it"
        return InvalidInput(
            f"For question {row.name!r} the state{beside} has {what}",
            hint=error.hint,
            param="state",
        )


def document(answers: Mapping[str, Any]) -> str:
    """Answers as JSON; raises InvalidModelOutput where a number is none."""
    try:
        return json.dumps({"answers": answers}, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise InvalidModelOutput("The answers have NaN or infinity in them.") from error


# ---- from a state and questions to texts ---------------------------------------------------------


def _parts(state: Any) -> dict[str, str]:
    """The parts of a state by name; a text alone has the name `state`.

    Raises:
        InvalidInput: it is no text, and neither a list nor a mapping of texts, or it is blank.
    """
    listed = {"state": state} if isinstance(state, str) else state
    if isinstance(listed, Sequence):
        listed = {str(place): part for place, part in enumerate(listed)}
    if not isinstance(listed, Mapping) or not all(isinstance(p, str) for p in listed.values()):
        raise InvalidInput(
            "The state is no text.",
            hint="A text, a list of texts, or texts by name.",
            param="state",
        )
    if not any(part.strip() for part in listed.values()):
        raise InvalidInput("The state is empty.", param="state")
    return dict(listed)


def _whole(parts: Mapping[str, str]) -> str:
    """All parts as one text: each on its own line, behind its name where it has one."""
    if set(parts) == {"state"}:
        return parts["state"]
    return "\n".join(part if name.isdigit() else f"{name}: {part}" for name, part in parts.items())


def _rows(name: str, question: Question, parts: Mapping[str, str]) -> list[Row]:
    if question.type == "span":
        return [Row(name, _over(name, question, parts), None)]
    text = _whole(parts)
    return [Row(name, text, sentence) for sentence in _SENTENCES[question.type](question)]


def _over(name: str, question: Span, parts: Mapping[str, str]) -> str:
    """The text in which a span question looks."""
    if question.over is None:
        return _whole(parts)
    if question.over not in parts or not parts[question.over].strip():
        raise InvalidQuestion(
            f"The state has no part {question.over!r} with words in it.",
            hint=f"It has {', '.join(parts)}.",
            param=f"questions.{name}.over",
        )
    return parts[question.over]


def _sentence(instructions: str | None, option: str, template: str) -> str:
    """An option as a sentence; instructions without a place for it stand before it."""
    template = template if instructions is None else instructions
    return template.replace("{}", option) if "{}" in template else f"{template} {option}"


def _of_options(instructions: str | None, options: Sequence[str] | Mapping[str, Any]) -> list[str]:
    said = dict(options) if isinstance(options, Mapping) else dict.fromkeys(options)
    return [_sentence(instructions, said[name] or name, TEMPLATE) for name in said]


def _of_noul(question: Noul) -> list[str]:
    said = question.criteria
    if said is None:
        return [question.instructions or ""]
    both = [said] if isinstance(said, str) else [said.true, *([said.false] if said.false else [])]
    return [_sentence(question.instructions, one, "{}") for one in both]


_SENTENCES: dict[str, Callable[[Any], list[str]]] = {
    "choice": lambda question: _of_options(question.instructions, question.choices),
    "noul": _of_noul,
    "score": lambda question: _of_options(question.instructions, question.levels),
    "set": lambda question: _of_options(question.instructions, question.labels),
}


# ---- from logits to answers ----------------------------------------------------------------------


def _logits(head: Head, rows: Sequence[Any]) -> list[tuple[float, float]]:
    """Entailment and contradiction of each row."""
    sides = sides_of(head.labels)
    assert sides is not None, "no model without both labels is loaded for this"
    return [(float(row[sides.entailment]), float(row[sides.contradiction])) for row in rows]


def _shares(head: Head, rows: Sequence[Any]) -> list[float]:
    """Softmax of the entailment logits over rows."""
    entailed = [logit for logit, _ in _logits(head, rows)]
    most = max(entailed)
    grown = [math.exp(logit - most) for logit in entailed]
    total = sum(grown)
    return [one / total for one in grown]


def _holds(head: Head, rows: Sequence[Any]) -> list[float]:
    """Of each row, entailment over contradiction: the softmax of the two, which is a sigmoid."""
    return [sigmoid(entailed - against) for entailed, against in _logits(head, rows)]


def _choice(question: Choice, head: Head, rows: Sequence[Any]) -> dict[str, Any]:
    shares = dict(zip(question.choices, _shares(head, rows), strict=True))
    best = max(shares, key=shares.__getitem__)
    return {"choice": best, "probabilities": shares, "confidence": shares[best]}


def _noul(question: Noul, head: Head, rows: Sequence[Any]) -> dict[str, Any]:
    return {"noul": (_holds if len(rows) == 1 else _shares)(head, rows)[0]}


def _score(question: Score, head: Head, rows: Sequence[Any]) -> dict[str, Any]:
    shares = _shares(head, rows)
    return {
        "score": sum(level * share for level, share in enumerate(shares)),
        "probabilities": {str(level): share for level, share in enumerate(shares)},
        "confidence": max(shares),
        "legend": {str(level): words for level, words in enumerate(question.levels)},
    }


def _set(question: Set, head: Head, rows: Sequence[Any]) -> dict[str, Any]:
    found = dict(zip(question.labels, _holds(head, rows), strict=True))
    picked = [label for label, share in found.items() if share >= question.threshold]
    return {"selected": picked, "probabilities": found, "threshold": question.threshold}


def _span(question: Span, head: Head, rows: Sequence[Any]) -> dict[str, Any]:
    known = {name_of(label)[1] for label in head.labels}
    if unknown := [label for label in question.labels if label not in known]:
        raise InvalidQuestion(
            f"The model has no label {unknown[0]!r}.", hint=f"It has {', '.join(sorted(known))}."
        )
    wanted = [
        asdict(span)
        for span in rows[0]
        if span.label in question.labels and span.probability >= question.threshold
    ]
    return {"spans": wanted}


_ANSWERS: dict[str, Callable[[Any, Head, Sequence[Any]], dict[str, Any]]] = {
    "choice": _choice,
    "noul": _noul,
    "score": _score,
    "set": _set,
    "span": _span,
}
