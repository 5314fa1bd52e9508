"""One request from a file, flags and `--set`. The model's manifest says which flags there are.

@click.command(cls=ModelCommand)
@request_options
@click.pass_context
def command(ctx, **options):
    request = request_of(ctx)

Help, completion and errors follow from the same flags.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from jumar import catalog
from jumar.cli.params import Key, keys_of, metavar, typed
from jumar.contracts.errors import (
    InvalidRequest,
    InvalidValue,
    JumarError,
    UnknownKey,
    did_you_mean,
    nearest,
)

if TYPE_CHECKING:
    from jumar.catalog.manifest import Manifest, Param
    from jumar.contracts.requests import GenerateRequest

_META = "jumar.flags"
_FIRST_COLUMN = 34
_REQUEST_SUFFIXES = (".json", ".yaml", ".yml")
_FILES = ("image", "audio", "path")


class ModelCommand(click.Command):
    """A command about one request. Its options include the inputs and config keys of the model,
    which is looked for on the line, or in the request file, before the line is parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the model, then parse with its flags."""
        try:
            ctx.meta[_META] = _Flags(_model_named(args), _option(args, "--task"))
        except JumarError:
            if not ctx.resilient_parsing:
                raise
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._no_flag(ctx, error.option_name) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The options of the command, then those of the model."""
        own = super().get_params(ctx)
        taken = {name for param in own for name in param.opts}
        flags = ctx.meta.get(_META)
        return own + [o for o in (flags.options if flags else ()) if not taken & set(o.opts)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options under headings, the model's first; without a model, how to see the rest."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in sorted(self.get_params(ctx), key=lambda p: not isinstance(p, KeyOption)):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Options"), []).append(record)
        firsts = [first for rows in sections.values() for first, _ in rows]
        width = max(len(first) for first in firsts if len(first) <= _FIRST_COLUMN)
        for name, rows in sections.items():
            with formatter.section(name):
                padded = [(first.ljust(width), text) for first, text in rows]
                formatter.write_dl(padded, col_max=width)
        if not (flags := ctx.meta.get(_META)) or flags.manifest is None:
            with formatter.section("Inputs and config"):
                formatter.write_text(
                    "The model decides which there are; with --model MODEL, this help shows them."
                )

    def _no_flag(self, ctx: click.Context, name: str) -> UnknownKey:
        manifest, task = ctx.meta[_META].manifest, ctx.meta[_META].task
        if manifest is None:
            return UnknownKey(
                f"{name} belongs to a model, and no model is named.",
                hint="Say --model MODEL. `jumar models` lists them.",
                param=name,
            )
        flags = [f for param in self.get_params(ctx) for f in param.opts if f.startswith("--")]
        bare = {flag.removeprefix("--"): flag for flag in flags}
        close = [bare[flag] for flag in nearest(name.lstrip("-"), bare)]
        hint = f"Did you mean {' or '.join(close)}?" if close else None
        return UnknownKey(
            f"{manifest.id} has no flag {name}{f' for {task}' if task else ''}.",
            hint=hint or f"{ctx.command_path} --model {manifest.id} --help",
            param=name,
        )


class KeyOption(click.Option):
    """One input or config key of the model. What it is given stands in `flags.given`."""

    def __init__(self, key: Key, model: str) -> None:
        self.key = key
        self.section = key.heading if key.param.engine else f"{key.heading} of {model}"
        dashed = key.name.replace("_", "-")
        boolean = key.param.type == "boolean"
        super().__init__(
            [f"--{dashed}/--no-{dashed}" if boolean else f"--{dashed}", f"{key.part}_{key.name}"],
            type=None if boolean else KeyType(key.param),
            metavar=None if boolean else metavar(key.param),
            multiple=key.param.type == "texts",
            default=None,
            expose_value=False,
            callback=_keep,
            help=key.said,
        )

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        """A switch in one word: `--[no-]vad`."""
        dashed = self.key.name.replace("_", "-")
        if self.key.param.type == "boolean":
            return f"--[no-]{dashed}", self.key.said
        return f"--{dashed} {metavar(self.key.param)}", self.key.said


class KeyType(click.ParamType):  # type: ignore[type-arg]
    """Text as the value of a `Param`."""

    def __init__(self, param: Param) -> None:
        self.param = param
        self.name = param.type

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the value; whether it is allowed is for the catalog to say."""
        return typed(self.param, value) if isinstance(value, str) else value

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The choices of a choice, the files of a file."""
        if self.param.type in _FILES:
            return [CompletionItem(incomplete, type="file")]
        return [CompletionItem(c) for c in self.param.choices if c.startswith(incomplete)]


class _Flags:
    """The flags of one model (none where `manifest` is None), and what they were given."""

    def __init__(self, manifest: Manifest | None, task: str | None) -> None:
        self.manifest = manifest
        self.task = task
        self.given: dict[str, dict[str, Any]] = {"inputs": {}, "config": {}}
        self.options: list[KeyOption] = []
        if manifest is not None:
            self.options = [KeyOption(key, manifest.id) for key in keys_of(manifest, task)]


def _keep(ctx: click.Context, option: click.Parameter, value: Any) -> None:
    if isinstance(option, KeyOption) and value is not None and value != ():
        given = ctx.meta[_META].given[option.key.part]
        given[option.key.name] = list(value) if isinstance(value, tuple) else value


def _model_named(args: Sequence[str]) -> Manifest | None:
    """The manifest of `--model`, or else of the request file on the line."""
    named = _option(args, "--model", "-m")
    if named is None:
        from jumar.contracts.requests import GenerateRequest

        files = [a for a in args if a.endswith(_REQUEST_SUFFIXES) and Path(a).is_file()]
        named = GenerateRequest.from_file(files[0]).model if files else None
    return None if named is None else catalog.get(named)


def _option(args: Sequence[str], *names: str) -> str | None:
    """The value of an option on a line that is not parsed yet."""
    for place, arg in enumerate(args):
        if arg == "--":
            break
        name, sign, value = arg.partition("=")
        if name in names:
            return value if sign else next(iter(args[place + 1 :]), None)
        if arg[:2] in names and arg[1:2] != "-":  # -mNAME
            return arg[2:]
    return None


def complete_model(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Shell completion of a model's id."""
    return [
        CompletionItem(row.id, help=row.summary)
        for row in catalog.rows()
        if row.id.startswith(incomplete)
    ]


_SHARED: tuple[Callable[[Any], Any], ...] = (
    click.argument("request_file", required=False, type=click.Path()),
    click.option("--config", "config_file", hidden=True, type=click.Path()),
    click.option(
        "--model", "-m", metavar="MODEL", shell_complete=complete_model, help="Id or alias."
    ),
    click.option("--task", metavar="TASK", help="What to do; follows from model and inputs."),
    click.option(
        "--device", "--backend", "-d", "backend", metavar="DEVICE",
        help="auto, cpu, cuda[:N], npu[:N], npu:free.",
    ),
    click.option(
        "--set", "settings", metavar="KEY=VALUE", multiple=True, help="Set any config key."
    ),
    click.option(
        "--lora", "loras", metavar="FILE[@SCALE]", multiple=True, help="Add LoRA weights."
    ),
    click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
)  # fmt: skip


def request_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every command about a request has."""
    for option in reversed(_SHARED):
        command = option(command)
    return command


def request_of(ctx: click.Context) -> GenerateRequest:
    """The request that the line means: file, then flags, then `--set`.

    Raises:
        InvalidRequest: no model is named, or the file is no request.
        UnknownKey: a key in `--set` that the model does not have.
    """
    from jumar.contracts.requests import GenerateRequest

    said, flags = ctx.params, ctx.meta[_META]
    file = said["request_file"] or said["config_file"]
    base = GenerateRequest.from_file(file).model_dump() if file else {}
    model = said["model"] or base.get("model")
    if model is None:
        raise InvalidRequest(
            "No model is named.",
            hint="Say --model MODEL, or name a request file. `jumar models` lists the models.",
            param="model",
        )
    manifest = catalog.get(model)
    task = said["task"] or base.get("task")
    inputs = {**base.get("inputs", {}), **flags.given["inputs"]}
    config = {**base.get("config", {}), **flags.given["config"]}
    config |= dict(_setting(text, manifest, task) for text in said["settings"])
    request = {
        "task": task or catalog.task_for(manifest, [*inputs, *config], manifest.primary_task),
        "model": model,
        "backend": said["backend"] or base.get("backend", "auto"),
        "inputs": inputs,
        "config": config,
        "adapters": [_lora(text) for text in said["loras"]] or base.get("adapters"),
    }
    return GenerateRequest.from_dict(request)


def _setting(text: str, manifest: Manifest, task: str | None) -> tuple[str, Any]:
    key, sign, value = text.partition("=")
    key = key.strip().replace("-", "_")
    known = {key.name: key.param for key in keys_of(manifest, task) if key.part == "config"}
    if not sign:
        raise InvalidRequest(f"--set {text!r} is not KEY=VALUE.", param="set")
    if key not in known:
        raise UnknownKey(
            f"{manifest.id} has no config key {key!r}.",
            hint=did_you_mean(key, known),
            param=f"config.{key}",
        )
    return key, typed(known[key], value)


def _lora(text: str) -> dict[str, Any]:
    path, _, scale = text.rpartition("@")
    if not path.endswith(".safetensors"):  # no scale is given; an @ belongs to the name
        return {"kind": "lora", "path": text}
    try:
        return {"kind": "lora", "path": path, "scale": float(scale)}
    except ValueError:
        raise InvalidValue(
            f"--lora {text!r}: the scale {scale!r} is no number.",
            hint=f"As in {path}@0.8",
            param="lora",
        ) from None
