"""Every route in one table: what the server answers, and what its OpenAPI document says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from jumar.contracts.results import GenerateResult
from jumar.engine.jobs import Job
from jumar.server import (
    bundling,
    cards,
    classifying,
    deciding,
    embedding,
    generating,
    jobs,
    machine,
    reading,
    status,
)
from jumar.server.contracts import (
    BundleBody,
    ClassifyBody,
    DecideBody,
    EmbeddingsBody,
    GenerateBody,
    GenerateForm,
    RerankBody,
)
from jumar.server.forwarding import surfaces
from jumar.server.forwarding.passing import elsewhere, forwarded
from jumar.server.openai import bodies, filming, images, speech, transcriptions, videos
from jumar.server.openapi import document
from jumar.server.page.routes import PAGE
from jumar.server.wire import only_known

Handler = Callable[[Request], Awaitable[Response]]


class Row(NamedTuple):
    """One route.

    Args:
        takes, gives: Contracts of the body and of the answer; None: any JSON.
        form: The contract of the body where it comes as a form.
        media: The answer's media types, where it is no JSON.
        query: What may stand behind the `?`, as JSON Schema.
        also: Other statuses than 200 that are no error, and their contracts.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    takes: type[BaseModel] | None = None
    gives: type[BaseModel] | None = None
    form: type[BaseModel] | None = None
    media: tuple[str, ...] = ("application/json",)
    query: Mapping[str, Mapping[str, Any]] = {}
    also: Mapping[int, type[BaseModel] | None] = {}


async def openapi(request: Request) -> Response:
    """This table as an OpenAPI document."""
    return JSONResponse(document(ROUTES))


ROUTES: tuple[Row, ...] = (
    Row("POST", "/v1/generate", generating.generate, "Run a request.",
        GenerateBody, GenerateResult, GenerateForm, also={202: Job}),
    Row("GET", "/v1/jobs", jobs.jobs, "List jobs.", query=jobs.QUERY),
    Row("GET", "/v1/jobs/{job}", jobs.job, "Look at a job.", gives=Job),
    Row("DELETE", "/v1/jobs/{job}", jobs.delete, "Cancel a job, or forget it.", gives=Job),
    Row("GET", "/v1/jobs/{job}/events", jobs.events, "Hear its events.",
        media=("text/event-stream",)),
    Row("GET", "/v1/jobs/{job}/trace", jobs.trace, "Its run as a trace for Perfetto."),
    Row("GET", "/v1/artifacts/{sha256}", generating.artifact, "Fetch an artifact.",
        media=("*/*",)),
    Row("POST", "/v1/embeddings", forwarded(surfaces.EMBEDDINGS, reading.route(embedding.embed)),
        "Turn texts into vectors (OpenAI).", EmbeddingsBody),
    Row("POST", "/v1/classify", reading.route(classifying.classify),
        "Label texts, or stretches of them.", ClassifyBody),
    Row("POST", "/v1/rerank", reading.route(classifying.rerank), "Rank documents by a query.",
        RerankBody),
    Row("POST", "/v1/decisions", reading.route(deciding.decide),
        "Answer typed questions about a text.", DecideBody),
    Row("POST", "/v1/systemone", reading.route(deciding.decide), "The same.", DecideBody),
    Row("POST", "/v1/bundle", bundling.bundle, "Several bodies of reading routes at once.",
        BundleBody),
    Row("POST", "/v1/images/generations", forwarded(surfaces.IMAGES, images.generations),
        "Draw pictures (OpenAI).", bodies.ImageBody),
    Row("POST", "/v1/images/edits", forwarded(surfaces.EDITS, images.edits),
        "Draw a picture again (OpenAI).", form=bodies.EditForm),
    Row("POST", "/v1/videos/generations", videos.generations, "Make a video.", bodies.VideoBody),
    Row("POST", "/v1/videos", filming.create, "Ask for a video (OpenAI).",
        bodies.FilmBody, filming.Video, bodies.FilmForm),
    Row("GET", "/v1/videos", filming.videos, "List videos (OpenAI).", query=filming.QUERY),
    Row("GET", "/v1/videos/{video}", filming.retrieve, "Look at a video (OpenAI).",
        gives=filming.Video),
    Row("DELETE", "/v1/videos/{video}", filming.delete, "Stop a video, or forget it (OpenAI)."),
    Row("GET", "/v1/videos/{video}/content", filming.content, "Fetch a video (OpenAI).",
        media=("video/*",), query={"variant": {"enum": ["video"]}}),
    Row("POST", "/v1/audio/speech", forwarded(surfaces.SPEECH, speech.speech),
        "Speak (OpenAI).", bodies.SpeechBody, media=("audio/*", "text/event-stream")),
    Row("POST", "/v1/audio/transcriptions",
        forwarded(surfaces.TRANSCRIPTIONS, transcriptions.transcriptions),
        "Write down what is said (OpenAI).", form=bodies.TranscriptionForm,
        media=("application/json", "text/*", "application/x-subrip", "text/event-stream")),
    Row("POST", "/v1/chat/completions", elsewhere(surfaces.CHAT),
        "Chat with another server's model (OpenAI).", bodies.ForwardedBody,
        media=("application/json", "text/event-stream")),
    Row("POST", "/v1/completions", elsewhere(surfaces.COMPLETIONS),
        "Let another server's model go on with a text (OpenAI).", bodies.ForwardedBody,
        media=("application/json", "text/event-stream")),
    Row("GET", "/v1/models", cards.models, "List models and their state (OpenAI).",
        query=cards.QUERY),
    Row("GET", "/v1/models/{model}", cards.model, "One model and its state (OpenAI)."),
    Row("GET", "/v1/devices", machine.devices, "The devices, how they are, what is on them."),
    Row("GET", "/health", status.health, "The state of each model; 503 where none answers.",
        also={503: None}),
    Row("GET", "/health/live", status.live, "Whether the process answers."),
    Row("GET", "/healthz", status.live, "The same."),
    Row("GET", "/readyz", status.ready, "Whether requests are answered now; 503 where not.",
        also={503: None}),
    Row("GET", "/metrics", status.metrics, "Metrics for Prometheus.", media=("text/plain",)),
    Row("GET", "/openapi.json", openapi, "This document."),
)  # fmt: skip

SOCKETS: dict[str, Callable[[WebSocket], Awaitable[None]]] = {
    "/v1/jobs/{job}/ws": jobs.socket,
    "/v1/jobs/{job}/stream": jobs.socket,  # OmniRT's name
}


def routes(*, page: bool) -> list[BaseRoute]:
    """The table as Starlette takes it, with the page where there is one."""
    paths: dict[str, dict[str, Handler]] = {}
    for row in ROUTES:
        paths.setdefault(row.path, {})[row.method] = _narrowed(row) if row.query else row.handler
    paths.update({path: {"GET": handler} for path, handler in PAGE.items() if page})
    plain: list[BaseRoute] = [
        Route(_with_slashes(path), _named(path, _by_method(handlers)), methods=list(handlers))
        for path, handlers in paths.items()
    ]
    return plain + [
        WebSocketRoute(path, _named(path, handler)) for path, handler in SOCKETS.items()
    ]


def _narrowed(row: Row) -> Handler:
    """The handler of a list, for what the list can be narrowed by."""

    async def handler(request: Request) -> Response:
        only_known(request, row.query)
        return await row.handler(request)

    return handler


def _with_slashes(path: str) -> str:
    """Names of models may have slashes in them: `sentence-transformers/all-MiniLM-L6-v2`."""
    return path.replace("{model}", "{model:path}")


def _by_method(handlers: Mapping[str, Handler]) -> Handler:
    """One handler of a path: with one route for each method, a 405 would name one of them."""

    async def handler(request: Request) -> Response:
        return await handlers["GET" if request.method == "HEAD" else request.method](request)

    return handler


def _named(path: str, handler: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
    """The handler; the log and the metrics hear which route it was."""

    async def named(connection: Any) -> Any:
        connection.state.route = path
        return await handler(connection)

    return named
