"""What Jumar costs beside the bare library: same machine, same run, in turn; ratios printed.

make bench            # or: python -m benchmarks [SECTION …]; an unknown one lists them
"""

from __future__ import annotations

import sys

from benchmarks import (
    binding,
    bisect,
    check,
    cli,
    drawing,
    health,
    isolate,
    overhead,
    prepacked,
    proxy,
    reading,
    restart,
    serving,
    shadow,
    warm,
)

SECTIONS = {
    "cli": cli.main,
    **warm.SECTIONS,
    "isolate": isolate.main,
    "bisect": bisect.main,
    "binding": binding.main,
    "shadow": shadow.main,
    "check": check.main,
    "overhead": overhead.main,
    "restart": restart.main,
    "health": health.main,
    "serving": serving.main,
    "proxy": proxy.main,
    "reading": reading.main,
    "drawing": drawing.main,
    "prepacked": prepacked.main,
}


def main() -> int:
    """Run the named sections, or all."""
    chosen = sys.argv[1:] or list(SECTIONS)
    if unknown := set(chosen) - set(SECTIONS):
        print(f"No section {', '.join(sorted(unknown))}. There are: {', '.join(SECTIONS)}.")
        return 2
    for name in chosen:
        SECTIONS[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
