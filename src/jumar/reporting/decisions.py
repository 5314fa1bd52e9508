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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import (
    InputTooLong,
    InvalidInput,
    InvalidModelOutput,
    InvalidQuestion,
    InvalidRequest,
    JumarError,
)
from jumar.reporting.entailment import sides_of
from jumar.reporting.readings import Head, name_of, sigmoid

if TYPE_CHECKING:
    from jumar.contracts.questions import Choice, Noul, Question, Score, Set, Span

TEMPLATE = "This example is {}."
"""The sentence of an option where instructions name none: that of transformers."""


@dataclass(frozen=True)
class Row:
    """One text to read, for the question of this name; `state` is the field of its state."""

    name: str
    text: str
    hypothesis: str | None
    state: str


@dataclass(frozen=True)
class Asked:
    """Questions about a state, and the rows that answer them, in the order of the questions."""

    questions: Mapping[str, Question | InvalidQuestion]
    rows: tuple[Row, ...]

    @classmethod
    def of(
        cls,
        state: Any,
        questions: Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        *,
        cuts: bool = False,
    ) -> Asked:
        """Questions as callers write them. `options` are the manifest's: `questions`, the types
        that are answered (all that sentences can answer, where it does not say), and `presets`,
        questions that it defines. `cuts`: of a long state only the beginning is read.

        Raises:
            InvalidInput: the state is no text.
            InvalidRequest: none of the questions can be asked. One alone is an error in its answer.
        """
        asked = cls.read(state, questions, options or {}, cuts=cuts)
        refuse_without_rows([asked])
        return asked

    @classmethod
    def read(
        cls,
        state: Any,
        questions: Mapping[str, Any],
        options: Mapping[str, Any],
        *,
        cuts: bool,
        where: str = "state",
    ) -> Asked:
        """The same, also where none of the questions can be asked: then without rows. `where` is
        the field of the state.
        """
        from jumar.contracts.questions import SENTENCES, parsed

        parts = _parts(state, where)
        found = parsed(questions, options.get("questions") or SENTENCES, options.get("presets"))
        rows: list[Row] = []
        for name, question in found.items():
            if not isinstance(question, InvalidQuestion):
                try:
                    read = _rows(name, question, parts, cuts=cuts)
                    rows += [Row(name, *texts, where) for texts in read]
                except InvalidQuestion as error:
                    found[name] = error
        return cls(found, tuple(rows))

    @classmethod
    def joined(cls, every: Sequence[Asked]) -> Asked:
        """The rows of several states, to be read at once."""
        return cls({}, tuple(row for one in every for row in one.rows))

    def whole(self, name: str) -> bool:
        """Whether the question of this name has to be answered from all of the state."""
        question = self.questions[name]
        return not isinstance(question, InvalidQuestion) and question.require_full_input

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

    def answers(
        self, head: Head, values: Sequence[Any], over: Sequence[int] = ()
    ) -> dict[str, dict[str, Any]]:
        """The answer to each question, or its error: plain data.

        `values` has for each row the logits [labels], or the spans of a token head; `over` how many
        of its tokens were not read, nothing where none was left out.
        """
        own: dict[str, list[Any]] = {}
        lost: dict[str, int] = {}
        for row, value, left in zip(self.rows, values, over or [0] * len(self.rows), strict=True):
            own.setdefault(row.name, []).append(value)
            lost[row.name] = max(left, lost.get(row.name, 0))
        found: dict[str, dict[str, Any]] = {}
        for name, question in self.questions.items():
            try:
                if isinstance(question, InvalidQuestion):
                    found[name] = _failed(None, question)
                    continue
                if question.require_full_input and lost[name]:
                    raise _too_long(lost[name])
                answered = _ANSWERS[question.type](question, head, own[name])
            except (InvalidQuestion, InputTooLong) as error:
                found[name] = _failed(question.type, error)
            else:
                found[name] = {"type": question.type, **answered}
                if question.require_full_input:
                    found[name]["input_coverage"] = "complete"
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
            param=row.state,
        )


def refuse_without_rows(every: Sequence[Asked]) -> None:
    """Raise InvalidRequest where nothing of it can be asked, with what is wrong."""
    if any(one.rows for one in every):
        return
    said = [str(wrong) for one in every for wrong in one.questions.values()] or ["There is none."]
    raise InvalidRequest(
        f"No question can be answered. {said[0]}",
        hint=" ".join(said[1:5]) or None,
        param="questions",
    )


def document(answers: Mapping[str, Any]) -> str:
    """Answers as JSON; raises InvalidModelOutput where a number is none."""
    try:
        return json.dumps({"answers": answers}, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise InvalidModelOutput("The answers have NaN or infinity in them.") from error


# ---- from a state and questions to texts ---------------------------------------------------------


def _parts(state: Any, where: str) -> dict[str, str]:
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
            param=where,
        )
    if not any(part.strip() for part in listed.values()):
        raise InvalidInput("The state is empty.", param=where)
    return dict(listed)


def _whole(parts: Mapping[str, str]) -> str:
    """All parts as one text: each on its own line, behind its name where it has one."""
    if set(parts) == {"state"}:
        return parts["state"]
    return "\n".join(part if name.isdigit() else f"{name}: {part}" for name, part in parts.items())


def _failed(kind: str | None, error: JumarError) -> dict[str, Any]:
    """An error in the place of an answer, as the model runtime has it."""
    told = {"error": error.code, "message": error.message, "hint": error.hint, "param": error.param}
    return {"type": kind, **{key: value for key, value in told.items() if value is not None}}


def _too_long(over: int) -> InputTooLong:
    return InputTooLong(
        f"The state has {over} tokens more than the model reads beside the question.",
        hint="overflow: window reads all of it.",
    )


def _rows(
    name: str, question: Question, parts: Mapping[str, str], *, cuts: bool
) -> list[tuple[str, str | None]]:
    """Texts, and what may follow from each."""
    if question.require_full_input and cuts:
        raise InvalidQuestion(
            "What requires the full input cannot be asked where long states are cut off.",
            hint="overflow: window reads all of it.",
            param=f"questions.{name}.require_full_input",
        )
    if question.type == "span":
        return [(_over(name, question, parts), None)]
    text = _whole(parts)
    return [(text, sentence) for sentence in _SENTENCES[question.type](question)]


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
    if question.require_full_input and any(
        parts[each].strip() for each in parts.keys() - {question.over}
    ):
        raise InvalidQuestion(
            f"It looks in {question.over!r} alone, and requires the full input.",
            hint="Leave one of the two out.",
            param=f"questions.{name}.require_full_input",
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
