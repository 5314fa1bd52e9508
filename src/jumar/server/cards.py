"""GET /v1/models: OpenAI's list, whose entries are also the models' cards.

What a card says of a model that is not loaded is what its manifest says.
"""

from __future__ import annotations

from typing import Any, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar import catalog
from jumar.catalog.index import ModelRow
from jumar.catalog.manifest import Manifest, Tier
from jumar.catalog.resolution import REMOTE
from jumar.contracts.errors import InvalidValue, UnknownModel, did_you_mean
from jumar.contracts.questions import SENTENCES
from jumar.engine.answers import digest
from jumar.engine.served import Served
from jumar.engine.states import State
from jumar.server.abilities import abilities
from jumar.server.contracts import CONTRACT, MOST_TASKS
from jumar.server.desk import Desk

TIME = 1_700_000_000
"""OpenAI's `created` of a model: a number that has to be there, and means nothing here."""

QUERY: dict[str, dict[str, Any]] = {
    "tier": {"enum": list(get_args(Tier))},
    "include_aliases": {"type": "boolean", "default": True},
}
"""What narrows the list, as JSON Schema."""

_SURFACES = {
    "embeddings": "embeddings",
    "classification": "classify",
    "reranking": "rerank",
    "decisions": "decisions",
}
"""Routes of the model runtime, by the tasks that answer there."""


async def models(request: Request) -> Response:
    """All models that are served here; `tier` narrows the list, `include_aliases` the entries."""
    tier = request.query_params.get("tier")
    aliases = request.query_params.get("include_aliases", "true").lower()
    if aliases not in ("true", "false"):
        raise InvalidValue("include_aliases is true or false.", param="include_aliases")
    if tier is not None and tier not in get_args(Tier):
        raise InvalidValue(
            f"There is no tier {tier[:40]!r}.",
            hint=did_you_mean(tier[:40], get_args(Tier)),
            param="tier",
        )
    found = await run_in_threadpool(cards, request.app.state.desk, tier)
    for one in found if aliases == "false" else ():
        one.pop("aliases", None)
    bounds = {
        "max_bundle_tasks": MOST_TASKS,
        "max_request_bytes": request.app.state.desk.settings.max_request_bytes,
    }
    body = {"object": "list", "data": found, "api_version": CONTRACT, "limits": bounds}
    return JSONResponse(body)


async def model(request: Request) -> Response:
    """One of them."""
    return JSONResponse(card(request.app.state.desk, request.path_params["model"]))


def cards(desk: Desk, tier: str | None = None) -> list[dict[str, Any]]:
    """All models that are served here, those that are loaded first, and those of other servers,
    which have no tier. May read manifests.
    """
    served, only = desk.house.by_id(), desk.house.only
    rows = [row for row in catalog.rows(tier) if only is None or row.id in only]
    rows.sort(key=lambda row: row.id not in served)
    own = [_card(desk, row, served.get(row.id)) for row in rows]
    upstreams = desk.settings.upstreams.named if tier is None else ()
    return own + [_card_of_upstream(name) for name in upstreams]


def card(desk: Desk, name: str) -> dict[str, Any]:
    """One of them. Raises UnknownModel, also where it is not served here."""
    if name in desk.settings.upstreams.named:
        return _card_of_upstream(name)
    manifest, only = desk.manifest(name), desk.house.only
    if only is not None and manifest.id not in only:
        hint = did_you_mean(name[:200], only)
        raise UnknownModel(f"{manifest.id} is not served here.", hint=hint, param="model")
    row = next(row for row in catalog.rows() if row.id == manifest.id)
    return _card(desk, row, desk.house.by_id().get(row.id))


def _card(desk: Desk, row: ModelRow, served: Served | None) -> dict[str, Any]:
    manifest = catalog.get(row.id)
    folders = {alias for alias in row.aliases if alias.startswith("/")}  # where it was adopted
    given = {alias for alias, model in desk.settings.aliases.items() if model == row.id}
    return {
        "id": row.id,
        "object": "model",
        "created": TIME,
        "owned_by": "jumar",
        "family": row.family,
        "summary": row.summary,
        "tier": row.tier,
        "tasks": list(row.tasks),
        "surfaces": [_SURFACES[task] for task in row.tasks if task in _SURFACES],
        "question_types": _answers(manifest),
        "presets": list(manifest.options.get("presets", ())),
        "aliases": sorted({*row.aliases, *given} - folders),
        "licence": manifest.licence,
        "model_sha256": pinned(desk, manifest),
        "backends": dict(row.backends),
        "limits": _limits(desk, manifest, served),
        **_state(served),
        **abilities(manifest, served.about if served else {}),
    }


def _state(served: Served | None) -> dict[str, Any]:
    """What is known of it once it is loaded."""
    state = served.states.state() if served else State("starting", "loaded when it is asked for")
    parity = served.parity if served else None
    return {
        "loaded": served is not None,
        "ready": state.answers,
        "status": state.name if served else "unloaded",
        "reason": state.reason,
        "device": served.device or served.loaded.backend if served else None,
        "device_class": served.device_class if served else None,
        "golden": parity.model_dump() if parity else {"status": "pending"},
        "waiting": served.waiting if served else 0,
        "pending": served.pending if served else 0,
        "execution_mode": served.service.execution_mode if served else None,
        "workers": [one.name for one in served.states.each()] if served else [],
    }


def pinned(desk: Desk, manifest: Manifest) -> str | None:
    """SHA-256 over the digests of all files, each checked when it is loaded; None where nobody has
    pinned them: a folder of the operator's, or a repository.
    """
    named = desk.house.plan(manifest.id).config.get("model_path")
    pinned = manifest.weights and all(one.files for one in manifest.weights.values())
    return digest(manifest) if pinned and named is None else None


def _answers(manifest: Manifest) -> list[str]:
    """The types of questions that it answers."""
    if "decisions" not in manifest.tasks:
        return []
    return list(manifest.options.get("questions", SENTENCES))


def _limits(desk: Desk, manifest: Manifest, served: Served | None) -> dict[str, int]:
    """How much it takes, under the names of the command line; and how long a text may be, where it
    has told.
    """
    service = desk.house.plan(manifest.id).service or desk.house.service
    together = service.batching_of(manifest.tasks[manifest.primary_task])
    return {
        "workers": service.workers,
        "max_queue": service.queue,
        "max_batch_size": together.most,
        "max_batch_tokens": service.batching.budget,
        "max_request_bytes": desk.settings.max_request_bytes,
        **(
            {"max_input_tokens": served.about["longest"]}
            if served and "longest" in served.about
            else {}
        ),
    }


def _card_of_upstream(name: str) -> dict[str, Any]:
    """Another server's model: whether it answers shows when it is asked."""
    return {
        "id": name,
        "object": "model",
        "created": TIME,
        "owned_by": "upstream",
        "device": REMOTE,
        "golden": {"status": "unverified"},
    }
