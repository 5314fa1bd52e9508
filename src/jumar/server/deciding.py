"""POST /v1/decisions: typed questions about texts, answered by what a classifier reads in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from jumar.contracts.errors import InvalidInput, JumarError
from jumar.engine.results import Vectors
from jumar.reporting.decisions import Asked, refuse_without_rows
from jumar.server import outward
from jumar.server.classifying import head_of
from jumar.server.contracts import DecideBody, GenerateBody
from jumar.server.desk import Desk
from jumar.server.reading import OPTIONS, Asking, config_of, usage, written
from jumar.server.wire import checked


def decide(desk: Desk, payload: dict[str, Any]) -> Asking:
    """The answer to each question, or what is wrong with it.

    Raises:
        UnsupportedTask: the model answers no questions.
        InvalidRequest: none of these.
    """
    body = checked(DecideBody, payload)
    manifest = desk.manifest(body.model)
    if "decisions" not in manifest.tasks:
        with outward.as_written({}):
            raise desk.unsupported(manifest, "decisions")
    states = _States.of(body, manifest.options)
    config = config_of(body.options)
    if states.judged:
        config["overflow"] = "truncate"
    reads = GenerateBody(
        model=body.model, task=states.all.task, inputs=dict(states.all.inputs), config=config
    )
    return Asking(
        reads,
        len(states.all.rows),
        states.written,
        body.options.deadline_ms,
        {"texts": "state", "hypotheses": "questions", **OPTIONS},
        states.blamed,
    )


@dataclass(frozen=True)
class _States:
    """What is asked of each state; the request's own has no name."""

    body: DecideBody
    each: Mapping[str | None, Asked]

    @classmethod
    def of(cls, body: DecideBody, options: Mapping[str, Any]) -> _States:
        """Raises InvalidInput for the first state that is no text, InvalidRequest where no question
        of any can be asked.
        """
        cuts = body.options.overflow == "truncate"
        each: dict[str | None, Asked] = {
            None: Asked.read(body.state, body.questions, options, cuts=cuts)
        }
        for name, one in body.states.items():
            where = f"states.{name}.state"
            each[name] = Asked.read(one.state, one.questions, options, cuts=cuts, where=where)
        refuse_without_rows(list(each.values()))
        return cls(body, each)

    @cached_property
    def all(self) -> Asked:
        """All that is read."""
        return Asked.joined(list(self.each.values()))

    @cached_property
    def judged(self) -> bool:
        """Whether what is too long is cut first, and refused here: where nothing may be cut, a
        question that requires its full input fails alone, and any other the whole request.
        """
        if self.body.options.overflow not in (None, "reject"):
            return False
        return any(one.whole(row.name) for one in self.each.values() for row in one.rows)

    def written(self, found: Vectors) -> str:
        """The answers as JSON.

        Raises:
            InvalidInput: a state is too long for a question that does not fail alone.
        """
        answers = {name: self._answer(asked, own) for name, asked, own in self._apart(found)}
        content = answers.pop(None)
        return written({**content, "states": answers} if answers else content)

    def blamed(self, error: JumarError) -> JumarError:
        """An error of the model's about a row, as one about a state and a question."""
        return self.all.blamed(error) if isinstance(error, InvalidInput) else error

    def _apart(self, found: Vectors) -> Iterator[tuple[str | None, Asked, Vectors]]:
        """What was read of each state."""
        at = 0
        for name, asked in self.each.items():
            here = slice(at, at + len(asked.rows))
            at = here.stop
            counts = {
                key: getattr(found, key)[here] for key in ("values", "tokens", "over", "windows")
            }
            yield name, asked, replace(found, **counts)

    def _answer(self, asked: Asked, found: Vectors) -> dict[str, Any]:
        if self.judged:
            _refuse_long(asked, found)
        content = {
            "model": self.body.model,
            "answers": asked.answers(head_of(found), found.values, found.over),
            "usage": usage(found),
        }
        if self.body.options.return_meta:
            content["meta"] = _meta(found)
        return content


def _refuse_long(asked: Asked, found: Vectors) -> None:
    for at, (row, over) in enumerate(zip(asked.rows, found.over, strict=False)):
        if over and not asked.whole(row.name):
            raise asked.blamed(
                InvalidInput(
                    f"Text {at} has {over} tokens more than {found.tokens[at]}.",
                    hint="overflow: window reads all of it, truncate its beginning.",
                    param=f"inputs.texts.{at}",
                )
            )


def _meta(found: Vectors) -> dict[str, Any]:
    """How much was read, of all that the questions made of the state."""
    tokens, over = sum(found.tokens), sum(found.over)
    return {
        "texts": len(found.values),
        "tokens": tokens + over,
        "processed_tokens": tokens,
        "truncated": over > 0,
        "windows": max(found.windows, default=1),
    }
