"""The bodies that callers send, as far as they are not contracts of `jumar.contracts`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, Json, SkipValidation

from jumar.contracts.questions import Question
from jumar.contracts.requests import AdapterRef

CONTRACT = "2.3.0"
"""Version of the model runtime's contract, whose shapes the reading routes and cards have. Its
clients refuse another major version.
"""

MOST_TASKS = 64
"""Of one bundle."""

Transport = Literal["path", "inline_bytes"]


class Body(BaseModel):
    """Unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GenerateBody(Body):
    """A `GenerateRequest`; `task` follows from model and inputs where it is left out.

    `async_run` answers with a job at once. `deadline_ms` counts from when the request came; after
    it nobody wants the answer. `transport` says how artifacts come: by a link, or in the body.
    """

    model: str
    task: str | None = None
    backend: str = "auto"
    inputs: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    adapters: list[AdapterRef] | None = None
    async_run: bool = False
    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)
    transport: Transport = "path"


class GenerateForm(BaseModel):
    """The same as a form: beside the JSON a file for each input that is one; several of a name are
    a list.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, bytes]

    request: Json[GenerateBody]


class EmbeddingsOptions(Body):
    """`exact` is the only profile here. `meta` says which vectors can be compared, unless nobody
    wants it.
    """

    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)
    profile: Literal["exact"] | None = None
    return_meta: bool = True


class EmbeddingsBody(Body):
    """OpenAI's body. `user` is taken and not used; `options` are the model runtime's."""

    model: str
    input: str | list[str]
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = Field(default=None, ge=1)
    user: str | None = None
    options: EmbeddingsOptions = Field(default_factory=EmbeddingsOptions)
    # Jumar's own:
    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)


class Pair(Body):
    """A text, and what belongs to it."""

    text: str
    text_pair: str


class Window(Body):
    """How long a window is and what two of them share, in tokens."""

    tokens: int | None = Field(default=None, ge=4)
    overlap: int | None = Field(default=None, ge=0)


class ReadOptions(Body):
    """What happens to long texts: those over the limit (`max_tokens`, else the model's own)."""

    overflow: Literal["reject", "truncate", "window"] | None = None
    max_tokens: int | None = Field(default=None, ge=4)
    window: Window | None = None


class ClassifyOptions(ReadOptions):
    """Besides, which labels are picked: `threshold` is for those of `scores`, and for spans."""

    threshold: float | None = Field(default=None, ge=0, le=1)


class ClassifyBody(Body):
    """POST /v1/classify, as the model runtime has it (contract 2.x)."""

    model: str
    input: str | list[str] | list[Pair]
    head: Literal["default"] | None = None
    options: ClassifyOptions = Field(default_factory=ClassifyOptions)
    # Jumar's own:
    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)


class RerankBody(Body):
    """POST /v1/rerank, as the model runtime has it (contract 2.x)."""

    model: str
    query: str
    documents: list[str] = Field(min_length=1, max_length=1024)
    top_n: int | None = Field(default=None, ge=1)
    return_documents: bool = False
    # Jumar's own:
    options: ClassifyOptions = Field(default_factory=ClassifyOptions)
    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)


class DecideOptions(ReadOptions):
    """`exact` is the only profile here. `meta` says how much was read, unless nobody wants it."""

    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)
    profile: Literal["exact"] | None = None
    return_meta: bool = True


class DecideState(Body):
    """A state, and questions about it.

    `state` is a text, a list of texts, or texts by name. A question that is wrong fails alone, so
    each is checked by itself.
    """

    state: str | list[str] | dict[str, str]
    questions: dict[str, SkipValidation[Question]] = Field(min_length=1, max_length=255)


class DecideBody(Body):
    """POST /v1/decisions, as the model runtime has it (contract 2.x): `states` are further ones by
    name, each answered as a request of its own would be.
    """

    model: str
    state: str | list[str] | dict[str, str]
    questions: dict[str, SkipValidation[Question]] = Field(min_length=1, max_length=255)
    states: dict[Annotated[str, Field(pattern=r"\S", max_length=200)], DecideState] = Field(
        default_factory=dict, max_length=255
    )
    options: DecideOptions = Field(default_factory=DecideOptions)


class BundleTask(Body):
    """One body of another route, under that route's name; checked by itself."""

    id: str = Field(min_length=1, max_length=200)
    classify: SkipValidation[ClassifyBody] | None = None
    embeddings: SkipValidation[EmbeddingsBody] | None = None
    rerank: SkipValidation[RerankBody] | None = None
    decisions: SkipValidation[DecideBody] | None = None


class BundleOptions(Body):
    """`deadline_ms` counts for every task."""

    deadline_ms: float | None = Field(default=None, gt=0, le=604_800_000)


class BundleBody(Body):
    """POST /v1/bundle, as the model runtime has it (contract 2.x). A task fails alone."""

    tasks: list[SkipValidation[BundleTask]] = Field(min_length=1, max_length=MOST_TASKS)
    options: BundleOptions = Field(default_factory=BundleOptions)
