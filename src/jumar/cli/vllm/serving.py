"""`jumar vllm serve|golden`: vLLM behind a front that outlives it, and what it has to say."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from jumar.contracts.errors import DependencyMissing, InvalidValue, UnknownKey, did_you_mean

_SECONDS = click.FloatRange(min=0, min_open=True)
_NEEDS = ("vllm", "starlette", "uvicorn", "httpx")
_ELSEWHERE = ("--uds", "--ssl-", "--enable-ssl", "--headless", "--grpc")
"""How options of vLLM's begin that have its server listen where nobody would find it."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("flags", nargs=-1, type=click.UNPROCESSED, metavar="MODEL [VLLM OPTION]...")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True)
@click.option(
    "--jumar-golden",
    "golden",
    metavar="FOLDER",
    help="Golden answers that are asked before it is ready; `jumar vllm golden` records them.",
)
@click.option(
    "--jumar-shadow",
    "shadow",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="One step in N is also computed by the CPU, operator by operator; 0: none.",
)
@click.option(
    "--jumar-silence",
    "silence_s",
    type=_SECONDS,
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="No step in this time while somebody waits is a hang.",
)
@click.option(
    "--jumar-loading",
    "loading_s",
    type=_SECONDS,
    default=1800.0,
    show_default=True,
    metavar="SECONDS",
    help="What starting may take.",
)
@click.option(
    "--jumar-restarts",
    "restarts",
    type=click.IntRange(min=0),
    default=3,
    show_default=True,
    help="Failures in a row without a guilty operator after which it gives up.",
)
def serve(*, flags: tuple[str, ...], host: str, port: int, **options: Any) -> int:
    """Serve MODEL with vLLM, and heal it.

    Takes the options of `vllm serve`. A crash, a hang or wrong numbers of one operator: it is
    named, evidence is written, the engine starts again with it in quarantine, and callers that had
    no answer yet get theirs. GET /jumar/health tells how it goes.
    """
    _installed()
    from jumar.vllm.activation import current
    from jumar.vllm.healing.healing import Healing, Options
    from jumar.vllm.healing.running import run

    if not flags:
        raise InvalidValue("No model is named.", hint="jumar vllm serve MODEL", param="MODEL")
    _refuse(flags)
    if options["golden"] is not None:
        from jumar.lab.golden.files import read

        read(options["golden"])  # what is no golden set is said before anything is started
    activation = current()
    if activation.device is None:
        raise activation.error or InvalidValue(
            f"Jumar's platform is not active: {activation.reason}", hint="Run: jumar vllm status"
        )
    device = "cpu" if activation.device == "cpu" else f"{activation.device}:0"
    return run(lambda: Healing(Options(flags, device, **options)), host=host, port=port)


@click.command()
@click.argument("model", metavar="FOLDER")
@click.option("--out", metavar="FOLDER", help="Where it is written.  [default: MODEL/jumar-golden]")
@click.option(
    "--task",
    type=click.Choice(["text", "embeddings", "classification"]),
    help="What it is served for.  [default: what the checkpoint says]",
)
@click.option(
    "--pooling",
    type=click.Choice(["cls", "last", "mean"]),
    help="How embeddings come from tokens.  [default: what the checkpoint says]",
)
def golden(*, model: str, out: str | None, task: str | None, pooling: str | None) -> None:
    """Record what a model has to say: tokens, vectors or logits of Hugging Face's, on the CPU."""
    for name in ("torch", "transformers"):
        if find_spec(name) is None:
            raise DependencyMissing(f"{name} is not installed.", hint=f"pip install {name}")
    from jumar.vllm.healing.recording import record

    written = record(model, out or Path(model) / "jumar-golden", task=task, pooling=pooling)
    click.echo(f"{written}")
    click.echo(f"vllm serve {model} --jumar-golden {written.parent}")


def _refuse(flags: tuple[str, ...]) -> None:
    """What vLLM would take, or refuse after a minute in every engine that is started again."""
    own = [name for one in serve.params for name in one.opts if name.startswith("--")]
    for flag in (flag.partition("=")[0].replace("_", "-") for flag in flags):
        if flag.startswith("--jumar-"):
            raise UnknownKey(f"There is no option {flag}.", hint=did_you_mean(flag, own))
        if flag.startswith(_ELSEWHERE):
            raise InvalidValue(
                f"{flag} is not for a server that heals: callers speak to its front.",
                hint="The front listens on --host and --port; TLS is a proxy's.",
                param=flag,
            )


def _installed() -> None:
    for name in _NEEDS:
        if find_spec(name) is None:
            raise DependencyMissing(
                f"{name} is not installed.", hint="Beside vLLM: pip install jumar"
            )
