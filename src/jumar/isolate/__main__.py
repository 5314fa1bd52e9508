"""The first lines of our processes: ``python .../isolate ROLE FD…``. Not for people.

Started by path and not by ``-c`` or ``-m``: those would search the current folder for modules.
"""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def main(role: str, *numbers: str) -> None:
    """Be the zygote, a guard or a worker with these descriptors."""
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    fds = [int(number) for number in numbers]
    if role == "worker":
        from jumar.isolate import worker

        worker.main(*fds)
    elif role == "guard":
        from jumar.isolate import guard
        from jumar.isolate.frames import Channel

        guard.main(Channel(socket.socket(fileno=fds[0])), fds[1])
    else:
        from jumar.isolate import nursery

        nursery.main(socket.socket(fileno=fds[0]), fds[1])


if __name__ == "__main__":
    main(*sys.argv[1:])
