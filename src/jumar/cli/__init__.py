"""The command line. The console scripts call `main`; each command is a module of its own."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command line (default: this process's) and exit with its code."""
    try:
        from jumar.cli.app import jumar

        jumar.main(argv)
    except KeyboardInterrupt:  # while the command line itself is imported
        raise SystemExit(130) from None
