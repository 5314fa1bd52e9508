"""What `vllm serve` takes from Jumar: options of its own, and middleware."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from jumar.contracts.errors import JumarError
from jumar.lab.golden.files import read
from jumar.vllm.healing.goldens import GOLDEN
from jumar.vllm.healing.steps import SHADOW
from jumar.vllm.operators import MIDDLEWARE

RUST = "VLLM_USE_RUST_FRONTEND"
GATE = "jumar.vllm.healing.gate.Gate"

UNGATED: dict[str, Callable[[Any], bool]] = {
    "--grpc": lambda told: bool(getattr(told, "grpc", False)),
    "--headless": lambda told: bool(getattr(told, "headless", False)),
    "--api-server-count 0": lambda told: getattr(told, "api_server_count", None) == 0,
    RUST: lambda _: os.environ.get(RUST, "0") != "0",
}
"""What starts a server without vLLM's HTTP application in Python, where the golden answers are
asked."""


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
    parser.parse_known_args = partial(_parsed, parser, parser.parse_known_args)
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


def _parsed(parser: Any, parse: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """As argparse; golden answers that nobody would ask are an error, in any order of options."""
    namespace, rest = parse(*given, **named)
    if os.environ.get(GOLDEN):
        for name, chosen in UNGATED.items():
            if chosen(namespace):
                parser.error(
                    f"--jumar-golden is not for {name}: golden answers are asked by the HTTP server"
                    " before it listens, and none is started."
                )
    return namespace, rest


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
