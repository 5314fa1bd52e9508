"""`jumar serve`: models behind HTTP."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.flags import complete_model
from jumar.cli.isolating import investigator
from jumar.cli.naming import known
from jumar.contracts.errors import DependencyMissing, InvalidValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from jumar.engine.house import Limits
    from jumar.engine.service import Service
    from jumar.isolate import Zygote
    from jumar.server.settings import Keys

_NEEDS = ("aiohttp", "starlette", "uvicorn", "python_multipart", "websockets", "prometheus_client")

_REQUESTS, _PICTURES = 32, 4
"""Of a batch, where nobody says how many: few pictures fill a device, and all wait for the last."""

_COUNT = click.IntRange(min=1)
_SECONDS = click.FloatRange(min=0, min_open=True)
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("models", nargs=-1, metavar="[MODEL]...", shell_complete=complete_model)
@click.option(
    "--device",
    "--backend",
    "-d",
    "device",
    default="auto",
    show_default=True,
    metavar="DEVICE",
    help="Where all models run: auto, cpu, cuda[:N], npu[:N].",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8100,
    show_default=True,
    help="0: any that is free.",
)
@click.option("--uds", metavar="PATH", help="Listen on a Unix socket instead.")
@click.option("--api-key-file", type=_FILE, metavar="FILE", help="Keys of callers, one a line.")
@click.option("--no-auth", is_flag=True, help="Listen to other machines without keys.")
@click.option(
    "--workers", type=_COUNT, default=1, show_default=True, help="Processes for each model."
)
@click.option(
    "--in-process",
    is_flag=True,
    help="No process for each model: what aborts ends the server, what hangs is never ended.",
)
@click.option(
    "--set",
    "pairs",
    multiple=True,
    metavar="[MODEL:]KEY=VALUE",
    help="A load-time key, which callers cannot change then: dtype=bf16, compile=off.",
)
@click.option(
    "--models",
    "models_file",
    type=_FILE,
    metavar="FILE",
    help="Models from YAML, each with its name, device, config, workers.",
)
@click.option(
    "--max-concurrency",
    type=_COUNT,
    metavar="N",
    help="Requests at work at a time, over all models.  [default: one per worker]",
)
@click.option(
    "--pipeline-cache-size",
    type=_COUNT,
    metavar="N",
    help="Models loaded at a time.  [default: 4, or as many as are named]",
)
@click.option(
    "--max-queue",
    type=_COUNT,
    default=256,
    show_default=True,
    help="Requests that wait for a model; one more is refused (429).",
)
@click.option(
    "--batch-window-ms",
    type=click.FloatRange(min=0),
    default=0.0,
    show_default=True,
    help="How long a batch that is not full waits for more.",
)
@click.option(
    "--max-batch-size",
    type=_COUNT,
    metavar="N",
    help="Requests answered together, where a model can, or pictures drawn together."
    f"  [default: {_REQUESTS}, {_PICTURES} pictures]",
)
@click.option(
    "--max-batch-tokens",
    type=click.IntRange(1, 1 << 20),
    default=16_384,
    show_default=True,
    help="Tokens computed together, where a model reads texts.",
)
@click.option(
    "--result-cache-entries",
    type=click.IntRange(min=0),
    default=16_384,
    show_default=True,
    help="Texts of each model whose vectors or labels are kept; 0: none.",
)
@click.option(
    "--require-verified",
    is_flag=True,
    help="Refuse a model without golden answers for this kind of device.",
)
@click.option(
    "--heartbeat",
    type=_SECONDS,
    metavar="SECONDS",
    help="Silence of a model that is a hang.  [default 600]",
)
@click.option(
    "--load-heartbeat",
    type=_SECONDS,
    metavar="SECONDS",
    help="The same while it is loaded.  [default 1800]",
)
@click.option(
    "--heal",
    type=click.Choice(["on", "off"]),
    default="on",
    show_default=True,
    help="When a model fails: find the guilty operator, and run again without it.",
)
@click.option("--model-aliases", type=_FILE, metavar="FILE", help="Other names: a YAML mapping.")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="NAME=URL",
    help="A model that another server runs (OpenAI's routes); requests are passed on.",
)
@click.option(
    "--upstreams",
    "upstream_file",
    type=_FILE,
    metavar="FILE",
    help="The same from YAML: NAME: URL, or {url, model, api_key_env, silence_s}.",
)
@click.option(
    "--speech-url",
    metavar="URL",
    help="A speech service: speaks under every name unknown here."
    "  [env: JUMAR_VLLM_OMNI_SPEECH_URL]",
)
@click.option(
    "--max-request-bytes", type=_COUNT, default=8 << 20, show_default=True, help="The largest body."
)
@click.option(
    "--allow-root",
    "allow_roots",
    type=_FILE,
    multiple=True,
    metavar="FOLDER",
    help="Let callers name files in this folder.",
)
@click.option(
    "--data-dir",
    metavar="FOLDER",
    help="For artifacts and jobs.  [default: one of the user's for each port]",
)
@click.option(
    "--job-store",
    metavar="URL",
    envvar="JUMAR_JOB_STORE",
    help="Keep jobs in Redis, which servers may share: redis://HOST:PORT/DB."
    "  [env: JUMAR_JOB_STORE; default: a file in --data-dir]",
)
@click.option(
    "--otlp",
    metavar="URL",
    help="Send traces to this OpenTelemetry collector (OTLP over HTTP)."
    "  [env: OTEL_EXPORTER_OTLP_ENDPOINT]",
)
@click.option(
    "--keep",
    type=_SECONDS,
    default=86_400.0,
    show_default=True,
    metavar="SECONDS",
    help="How long artifacts and finished jobs are kept.",
)
@click.option(
    "--grace",
    type=_SECONDS,
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="What running work gets to end in after SIGTERM.",
)
@click.option("--page/--no-page", default=True, help="Whether there is a web page at /.")
@click.option("--log-level", type=click.Choice(["debug", "info", "warning", "error"]),
              default="info", show_default=True)  # fmt: skip
def command(
    *, models: tuple[str, ...], device: str, host: str, port: int, uds: str | None,
    api_key_file: Path | None, no_auth: bool, model_aliases: Path | None, max_request_bytes: int,
    allow_roots: tuple[Path, ...], data_dir: str | None, keep: float, grace: float,
    upstreams: tuple[str, ...], upstream_file: Path | None, speech_url: str | None,
    job_store: str | None, otlp: str | None, log_level: str, heal: str, page: bool,
    pairs: tuple[str, ...], models_file: Path | None, **how: Any,
) -> None:  # fmt: skip
    """Serve MODELs over HTTP; without any, every model, each loaded when it is asked for.

    It listens on this machine only, unless there are keys (--api-key-file).
    """
    _installed()
    from jumar.server.settings import Keys, Settings, read_aliases, refuse_open_door

    keys: Keys | None = Keys.read(api_key_file) if api_key_file else None
    if uds is None:
        refuse_open_door(host, keys, no_auth=no_auth)

    from jumar.engine.house import House
    from jumar.engine.jobs import open_store
    from jumar.engine.preloading import preloaded
    from jumar.isolate import Zygote
    from jumar.server.desk import Desk, data_folder
    from jumar.server.forwarding.upstreams import read_upstreams
    from jumar.server.heap import keep_small
    from jumar.server.plans import read_plans
    from jumar.server.proving import Prover
    from jumar.server.running import log_to_stderr, serve

    log_to_stderr(log_level)
    # A model's threads that wait for each other keep their cores busy (libgomp), those too that
    # another process needs: beside one, a forward of 10 ms took 480.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    aliases = read_aliases(model_aliases) if model_aliases else {}
    service = _service(**how)
    if not service.in_process:
        keep_small()
    served = read_plans(
        [known(aliases.get(name, name)) for name in models], pairs, models_file, service, device
    )
    limits = _limits(len(served.names), **how)
    data = data_folder(data_dir, "socket" if uds else str(port))
    there = read_upstreams(upstreams, upstream_file, speech_url)
    settings = Settings(
        data, keys, {**aliases, **served.aliases}, max_request_bytes, allow_roots, keep, there,
        only_here=uds is None and keys is None and not no_auth, page=page, otlp=otlp,
    )  # fmt: skip
    with Zygote(preloaded(served.names)) as zygote:
        _honoured([device, *(plan.device or device for plan in served.plans.values())], zygote)
        house = House(
            device, limits, service, only=served.names or None, plans=served.plans, prove=Prover(),
            investigate=investigator("off" if service.in_process else heal), zygote=zygote,
        )  # fmt: skip
        desk = Desk(house, open_store(job_store, data / "jobs.sqlite"), settings)
        try:
            desk.open(served.names)
            listening = _page_told if page and uds is None else _told
            serve(desk, host=host, port=port, uds=uds, grace=grace, listening=listening)
        finally:
            desk.close(grace)


def _honoured(devices: list[str], zygote: Zygote) -> None:
    """Refuse a device that is not here before anybody is listened to.

    Looked up in a child: whoever looks at an accelerator takes memory of it.
    """
    if others := [one for one in dict.fromkeys(devices) if one not in ("auto", "cpu")]:
        with zygote.spawn(_placing, others) as child:
            child.ready().result()


def _placing(devices: list[str]) -> Callable[[Any], None]:
    from jumar.devices import place

    for one in devices:
        place(one)
    return lambda _: None


def _limits(named: int, **how: Any) -> Limits:
    """How many models, and how many requests at work."""
    from jumar.engine.house import Limits

    models = how["pipeline_cache_size"] or max(4, named)
    if models < named:
        raise InvalidValue(
            f"{named} models are named, and {models} may be loaded at a time.",
            param="pipeline-cache-size",
        )
    return Limits(models, how["max_concurrency"])


def _service(**how: Any) -> Service:
    """How a model is served, where a file says nothing else of it."""
    from jumar.engine.queue import Batching
    from jumar.engine.service import Service

    if how["in_process"] and _said("heal"):
        raise InvalidValue(
            "--heal looks into workers that were lost, and --in-process has none.", param="heal"
        )
    return Service(
        workers=how["workers"],
        queue=how["max_queue"],
        batching=Batching(
            how["max_batch_size"] or _REQUESTS,
            how["max_batch_tokens"],
            how["batch_window_ms"] / 1e3,
            None if how["max_batch_size"] else _PICTURES,
        ),
        results=how["result_cache_entries"],
        require_verified=how["require_verified"],
        heartbeat=how["heartbeat"],
        load_heartbeat=how["load_heartbeat"],
        in_process=how["in_process"],
    )


def _said(option: str) -> bool:
    """Whether an option stands on the line with `on`."""
    context = click.get_current_context()
    source = context.get_parameter_source(option)
    return source is not click.core.ParameterSource.DEFAULT and context.params[option] == "on"


def _told(address: str) -> None:
    click.secho(f"Jumar listens on {address}", fg="green", err=True)


def _page_told(address: str) -> None:
    _told(address)
    click.secho(f"Its page: {address}/", fg="green", err=True)


def _installed() -> None:
    if missing := [module for module in _NEEDS if find_spec(module) is None]:
        raise DependencyMissing(
            f"A server needs {', '.join(missing)}.", hint="pip install 'jumar[server]'"
        )
