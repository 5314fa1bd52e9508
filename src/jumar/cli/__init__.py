"""The command line. The console scripts call `main`; each command is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command line (default: this process's) and exit with its code."""
    from jumar.cli.app import jumar

    jumar.main(argv)
