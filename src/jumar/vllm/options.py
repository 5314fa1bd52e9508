"""What `vllm serve` takes from Jumar: options of its own, and middleware."""

from __future__ import annotations

import argparse
import os
from typing import Any

from jumar.contracts.errors import JumarError
from jumar.lab.golden.files import read
from jumar.vllm.healing.goldens import GOLDEN
from jumar.vllm.healing.steps import SHADOW
from jumar.vllm.operators import MIDDLEWARE

GATE = "jumar.vllm.healing.gate.Gate"


class Environment(argparse.Action):
    """Writes an option to the environment, where every process of the engine reads it."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option: Any = None) -> None:
        """argparse."""
        os.environ[str(self.const)] = str(values)
        setattr(namespace, self.dest, values)


def extend(parser: Any) -> None:
    """Add them to a parser of a server; others have no middleware and are left alone."""
    own = parser.get_default("middleware")
    if own is None:
        return
    parser.set_defaults(middleware=[*own, MIDDLEWARE, GATE])
    group = parser.add_argument_group("Jumar", "Whether what is served is right.")
    group.add_argument(
        "--jumar-golden",
        action=Environment,
        const=GOLDEN,
        type=_golden,
        metavar="FOLDER",
        help="Golden answers that have to match before anybody is answered.",
    )
    group.add_argument(
        "--jumar-shadow",
        action=Environment,
        const=SHADOW,
        type=_steps,
        metavar="N",
        help="One step in N is also computed by the CPU, operator by operator; 0: none.",
    )


def _golden(folder: str) -> str:
    """What is no golden set is said before anything is loaded."""
    try:
        read(folder)
    except JumarError as error:
        raise argparse.ArgumentTypeError(error.message) from error
    return folder


def _steps(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 on.")
    return int(text)
