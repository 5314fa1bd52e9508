"""`jumar shadow`: one request, in which every operator is also computed by the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jumar.cli.flags import ModelCommand, request_of, request_options

if TYPE_CHECKING:
    from jumar.contracts.requests import GenerateRequest
    from jumar.evidence import Evidence, Store
    from jumar.lab.shadow import Coverage, Guilty
    from jumar.lab.shadow.watched import Judged

LOADING = 1800.0
"""Seconds that a model may take to be fetched and loaded."""

SILENCE = 120.0
"""Seconds for one operator, with its reference on the CPU; more is a hang."""

COLOURS = {"correct": "green", "nondeterministic": "magenta"}


@click.command(cls=ModelCommand)
@request_options
@click.option(
    "--every", type=click.IntRange(min=1), default=1, metavar="N", help="Judge one in N calls."
)
@click.option("--repeat", is_flag=True, help="Also compute every operator twice, and compare.")
@click.option(
    "--silence",
    type=click.FloatRange(min=0, min_open=True),
    default=SILENCE,
    show_default=True,
    metavar="SECONDS",
    help="An operator that takes longer hangs.",
)
@click.option("--no-save", is_flag=True, help="Keep no evidence: nothing gets into quarantine.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    as_json: bool,
    every: int,
    repeat: bool,
    silence: float,
    no_save: bool,
    **_: Any,
) -> int:
    """Name every operator whose own numbers are wrong, in one run.

    Each operator that works on the device is also computed by the CPU in float64, from the same
    inputs. Without inputs a usual request for the task is run. Exit code 1 where one is guilty.
    """
    from jumar.cli.bisect.model import fingerprint, plain
    from jumar.devices import place
    from jumar.evidence import Store

    request = plain(request_of(ctx))
    device = place(request.backend).device.label
    here = request.model_copy(update={"backend": device})
    store = None if no_save else Store().ready()
    found, records = shadowed(here, store, silence=silence, every=every, repeat=repeat)
    known = fingerprint(device)
    if as_json:
        _print_json(found, records, known)
    else:
        _print(found, records, device, known["device_class"], kept=not no_save)
    return _code(found)


def shadowed(
    request: GenerateRequest, store: Store | None, *, silence: float = SILENCE, **options: Any
) -> tuple[Judged, list[Evidence]]:
    """Run a request on its device in a child, under a `Shadow` with these options; what is found,
    and the evidence of it, which is kept where there is a store.

    Raises:
        JumarError: the model cannot be run there.
    """
    import time

    from jumar.cli.bisect.model import PRELOAD, answering, fingerprint
    from jumar.isolate import Zygote
    from jumar.lab.shadow.watched import judged

    device = request.backend
    if store is not None:
        options["reproducers"] = store.folder / "inputs"
    with Zygote(PRELOAD) as zygote:
        found = judged(
            answering, [request], device, zygote, loading=LOADING, silence=silence, options=options
        )
    known = fingerprint(device)
    records = [one.evidence(known, time.time()) for one in found.guilty]
    if store is not None:
        for record in records:
            store.add(record)
    return found, records


def _code(found: Judged) -> int:
    from jumar.contracts.errors import RunFailed

    if found.guilty:
        return 1
    if not found.coverage.compared:
        raise RunFailed(
            "No operator was compared: this says nothing.",
            hint="The model runs outside of torch, or --every is larger than what it calls.",
        )
    return 0


def _print_json(found: Judged, records: list[Evidence], fingerprint: dict[str, str]) -> None:
    from jumar.cli import show

    show.as_json(
        {
            "fingerprint": fingerprint,
            "coverage": None if found.ended else found.coverage.as_dict(),
            "ended": type(found.ended).__name__.lower() if found.ended else "returned",
            "guilty": [{"id": one.id, **one.model_dump()} for one in records],
        }
    )


def _print(
    found: Judged, records: list[Evidence], device: str, device_class: str, *, kept: bool
) -> None:
    where = f"{device} (emulated)" if device_class.endswith("-emulated") else device
    if records:
        _print_guilty(found.guilty, records)
        click.echo("")
    if found.ended:
        click.secho(f"The run on {where} did not come to its end.", fg="red")
    else:
        _print_coverage(found.coverage, where, guilty=bool(records))
    if records and kept:
        click.secho("In quarantine now: jumar quarantine list", dim=True)
        click.secho(
            f"A script that shows it: jumar evidence show {records[0].id} --script", dim=True
        )


def _print_guilty(guilty: list[Guilty], records: list[Evidence]) -> None:
    from rich.text import Text

    from jumar.cli.table import print_table

    rows = [
        (
            Text(record.id, style="dim"),
            Text(one.operator, style="bold"),
            Text(one.kind, style=COLOURS.get(one.kind, "red")),
            one.dtype,
            " ".join("x".join(map(str, shape)) or "scalar" for shape in one.shapes),
            _worst(one),
            _ulps(one),
            str(one.calls),
            one.layer or "",
        )
        for one, record in zip(guilty, records, strict=True)
    ]
    print_table(
        rows,
        headings=("ID", "OPERATOR", "IS", "DTYPE", "SHAPES", "WORST", "ULPS", "CALLS", "LAYER"),
        right="6 7",
    )


def _worst(one: Guilty) -> str:
    if "index" not in one.numbers:
        return one.reason[:48]
    wanted, got = (_short(one.numbers.get(name, "")) for name in ("wanted", "got"))
    return f"[{one.numbers['index']}] {got}, not {wanted}"


def _ulps(one: Guilty) -> str:
    return _short(one.numbers["ulps"]) if "ulps" in one.numbers else ""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_coverage(coverage: Coverage, where: str, *, guilty: bool) -> None:
    head, *rest = coverage.lines()
    verdict = "" if guilty else ", none is wrong"
    click.secho(f"{where}: {head}{verdict}.", fg="red" if guilty else "green")
    for line in rest:
        click.secho(f"  not compared: {line}", dim=True)
