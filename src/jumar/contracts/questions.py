"""Typed questions about a text: what callers of `/v1/decisions` and `jumar decide` may ask.

    parsed({"guard": {"type": "noul", "criteria": "This is an attack."}, "x": {"type": "choices"}})
    # {"guard": Noul(…), "x": InvalidQuestion("There is no type 'choices'.", …)}

The fields are those of the semantic router's model runtime (contract 2.x). Where the System One API
of TypeSafe writes options and levels under `criteria`, that is taken too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from jumar.contracts.errors import InvalidQuestion, did_you_mean

Words = Annotated[str, Field(pattern=r"\S", max_length=20_000)]


def _distinct(options: list[str]) -> list[str]:
    if len(set(options)) < len(options):
        raise ValueError("the same one stands there twice")
    return options


Listed: TypeAlias = Annotated[list[Words], AfterValidator(_distinct)]
Named: TypeAlias = dict[Words, Words | None]
"""Options by name, and what each means: null where the name says it."""


class _Question(BaseModel):
    """`instructions` say how an option becomes a sentence that may follow from the text: with `{}`
    where the option stands in it; without, the option stands behind them. `require_full_input`:
    rather no answer than one from a part of the state.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    instructions: Words | None = None
    require_full_input: bool = False


class Choice(_Question):
    """Which one of 2 to 255 options?"""

    type: Literal["choice"]
    choices: (
        Annotated[Listed, Field(min_length=2, max_length=255)]
        | Annotated[Named, Field(min_length=2, max_length=255)]
    ) = Field(validation_alias=AliasChoices("choices", "criteria"))


class Both(BaseModel):
    """What holds where the answer is yes, and where it is no."""

    model_config = ConfigDict(extra="forbid", strict=True)

    true: Words
    false: Words | None = None


class Noul(_Question):
    """Does it hold? A number from 0 (no) to 1 (yes). Either field, or both, say what."""

    type: Literal["noul"]
    criteria: Words | Both | None = None

    @model_validator(mode="after")
    def _asks(self) -> Noul:
        if self.criteria is None and self.instructions is None:
            raise ValueError("criteria are missing: a sentence that may hold")
        return self


class Score(_Question):
    """How far, on 2 to 10 levels from the lowest to the highest?"""

    type: Literal["score"]
    levels: Annotated[Listed, Field(min_length=2, max_length=10)] = Field(
        validation_alias=AliasChoices("levels", "criteria")
    )


class Set(_Question):
    """Which of 1 to 255 labels, each by itself? At least `threshold` picks one."""

    type: Literal["set"]
    labels: (
        Annotated[Listed, Field(min_length=1, max_length=255)]
        | Annotated[Named, Field(min_length=1, max_length=255)]
    ) = Field(validation_alias=AliasChoices("labels", "criteria"))
    threshold: float = Field(default=0.5, ge=0, le=1)


class Span(_Question):
    """Where do these labels stand in the text, or in its part `over`?"""

    type: Literal["span"]
    labels: Annotated[Listed, Field(min_length=1, max_length=255)]
    over: Words | None = None
    threshold: float = Field(default=0.0, ge=0, le=1)


Question: TypeAlias = Annotated[Choice | Noul | Score | Set | Span, Field(discriminator="type")]

SENTENCES = ("choice", "noul", "score", "set")
"""Types that are answered by how sentences follow from a text."""

TYPES = (*SENTENCES, "span")


def parsed(
    questions: Mapping[str, Any],
    types: Collection[str] = TYPES,
    presets: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Question | InvalidQuestion]:
    """Each question, or what is wrong with it. `types` are those that can be answered, `presets`
    questions that the model defines: `preset` names one, and it fills in what is not written.
    """
    return {name: _parsed(name, asked, types, presets or {}) for name, asked in questions.items()}


def _parsed(
    name: str, asked: Any, types: Collection[str], presets: Mapping[str, Mapping[str, Any]]
) -> Question | InvalidQuestion:
    where = f"questions.{name[:100]}"
    if isinstance(asked, Mapping) and "preset" in asked:
        preset = asked["preset"]
        if not isinstance(preset, str) or preset not in presets:
            return InvalidQuestion(
                f"The model defines no question {str(preset)[:100]!r}.",
                hint=f"It defines {', '.join(presets)}." if presets else "It defines none.",
                param=f"{where}.preset",
            )
        asked = {**presets[preset], **{key: asked[key] for key in asked if key != "preset"}}
    kind = asked.get("type") if isinstance(asked, Mapping) else None
    if kind in TYPES and kind not in types:
        return InvalidQuestion(
            f"This model does not answer questions of type {kind}.",
            hint=f"It answers {', '.join(types)}.",
            param=f"{where}.type",
        )
    try:
        question: Question = _adapter().validate_python(asked)
    except ValidationError as error:
        return _refused(where, kind, error)
    return question


def _refused(where: str, kind: Any, error: ValidationError) -> InvalidQuestion:
    """The first thing that is wrong, by its field."""
    found = error.errors()
    first = max(
        (one for one in found if one["loc"][:2] == found[0]["loc"][:2]),
        key=lambda one: len(one["loc"]),  # of several types: what fits most
    )
    if first["type"].startswith("union_tag"):
        known = did_you_mean(str(kind)[:100], TYPES)
        return InvalidQuestion(
            f"There is no type {str(kind)[:100]!r}.", hint=known, param=f"{where}.type"
        )
    fields = [str(part) for part in first["loc"][1:2]]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 2:
        known = did_you_mean(fields[0][:100], _MODELS[str(kind)].model_fields)
        return InvalidQuestion(
            f"A {kind} has no field {fields[0][:100]!r}.",
            hint=known,
            param=".".join([where, fields[0][:100]]),
        )
    said = first["msg"].removeprefix("Value error, ")
    field = ".".join([where, *fields])
    return InvalidQuestion(f"{field}: {said}.", param=field)


_MODELS: dict[str, type[BaseModel]] = {
    "choice": Choice,
    "noul": Noul,
    "score": Score,
    "set": Set,
    "span": Span,
}


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(Question)
