"""`jumar doctor`: what is wrong on this machine, why, and what to do about it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from jumar.host.doctor import Diagnosis
    from jumar.host.doctor.base import Lang, Purpose
    from jumar.host.facts import HostFacts

LOCALES = ("LC_ALL", "LC_MESSAGES", "LANG")


@click.command()
@click.option("--host", metavar="FILE", help="A recorded host instead of this machine.")
@click.option("--log", type=click.File("rb"), help="A log to explain; - is standard input.")
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["generate", "serve", "vllm"]),
    help="Look also at what matters only for this.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--lang", type=click.Choice(["en", "zh"]), help="Default: from the locale.")
@click.option("--strict", is_flag=True, help="Warnings count as errors.")
def command(
    host: str | None,
    log: BinaryIO | None,
    purpose: Purpose | None,
    as_json: bool,
    lang: Lang | None,
    strict: bool,
) -> int:
    """Find out what is wrong here, and why. Nothing is changed.

    A cause is shown once, with what follows from it below; so is what could not be looked at.
    A log is explained together with the machine, or alone where the machine has no NPU.

    \b
    Exit codes, for CI:
      0  nothing is wrong (warnings and notes are no failure)
      1  an error was found; with --strict also a warning
      2  the options or files given are wrong
    """
    from jumar.host import open_host

    lang = lang or locale_language()
    facts = open_host(host)
    diagnosis = diagnose(facts, purpose, log, alone=host is None)
    if as_json:
        from jumar.cli import show
        from jumar.host.doctor import id_map

        ids = [row.as_dict() for row in id_map(facts)]
        about = {"host": facts.source, "for": purpose, "lang": lang}
        show.as_json({**about, **diagnosis.as_dict(lang), "ids": ids})
    else:
        from jumar.cli.diagnosis import print_diagnosis

        print_diagnosis(diagnosis, facts, lang)
    return 1 if diagnosis.worst() in ("error", *(["warning"] if strict else [])) else 0


def diagnose(
    facts: HostFacts, purpose: Purpose | None, log: BinaryIO | None, *, alone: bool
) -> Diagnosis:
    """Host and log together; the log `alone` where this machine has nothing to do with it."""
    from jumar.host.doctor import Diagnosis, Unseen, arrange, classify, examine
    from jumar.host.product import has_npu

    if log is None:
        return examine(facts, purpose)
    found = classify(log)
    if alone and not has_npu(facts):
        dark = Unseen("host", "this machine has no NPU: only the log was looked at", ())
        return Diagnosis(arrange(found), (dark,), 0)
    return examine(facts, purpose, found)


def locale_language() -> Lang:
    """The language of the messages here: Chinese for a locale that begins with zh."""
    locale = next((os.environ[name] for name in LOCALES if os.environ.get(name)), "")
    return "zh" if locale.lower().startswith("zh") else "en"
