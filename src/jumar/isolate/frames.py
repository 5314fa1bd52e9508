"""Messages between our own processes: a head, a pickle, and large buffers beside it.

    frame = kind u8 | number u32 | count u32 | size u64 | pickle | count × (size u64 | buffer)

`number` tells the calls of a child apart. Pickle protocol 5 hands big arrays over out of band, so
that they are copied by the socket only. Never for strangers: reading a pickle runs code.
"""

from __future__ import annotations

import pickle
import select
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import Any, NamedTuple, Union

_HEAD = Struct("!BIIQ")
_SIZE = Struct("!Q")
_SMALL = 1 << 16  # below this, one send of a joined copy is cheaper than several sends
_LARGEST = 1 << 44  # a size above this is no size

Buffer = Union[bytes, bytearray, memoryview]  # noqa: UP007


class Kind(IntEnum):
    """What a frame says. First those between parent and child, then parent and guard."""

    CALL = 1
    CANCEL = 2
    PROGRESS = 3
    RETURNED = 4
    RAISED = 5
    TOLD = 6
    JOB = 10
    STARTED = 11
    BEAT = 12
    OUTPUT = 13
    END = 14
    REPORT = 15
    PRELOAD = 20
    READY = 21


class Lost(Exception):
    """Never leaves this package. The other side is gone, or wrote something that is no frame."""


class Frame(NamedTuple):
    """One message as it came, not unpickled: a broken value must not lose the frame after it."""

    kind: Kind
    number: int
    parts: Sequence[Buffer]

    def value(self) -> Any:
        """Unpickle it; raises what the pickle raises."""
        return pickle.loads(self.parts[0], buffers=self.parts[1:])


def dumped(value: Any) -> list[Buffer]:
    """The pickle of `value` and its out-of-band buffers; raises what its pickling raises."""
    beside: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=beside.append)
    return [body, *(buffer.raw() for buffer in beside)]


class Channel:
    """One end of a connected stream socket; `until` is a time of `time.monotonic`, None for ever.

    One thread may send while another receives; any may ask whether something is ready.

    Raises:
        Lost: The other end is closed.
        TimeoutError: `until` has passed. What was half sent or read is then lost: close it.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._ahead, self._at = bytearray(), 0  # what came, and how much of it has been taken
        self._held = b""
        self._incoming = select.poll()
        self._incoming.register(sock, select.POLLIN)

    def fileno(self) -> int:
        """For select; -1 once closed."""
        return self._sock.fileno()

    def close(self) -> None:
        """End the connection, also for forks of ours that hold a copy; harmless when it is over."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    @property
    def ahead(self) -> bool:
        """Whether more has been read than was taken: a frame, or the beginning of one."""
        return self._at < len(self._ahead)

    def ready(self, until: float | None = None) -> bool:
        """Whether a frame, or the end, has come before `until`."""
        return self.ahead or self._came(until)

    def ended(self) -> bool:
        """Whether the other end is closed, read or not what came before; waits for nothing."""
        poll = select.poll()
        try:
            poll.register(self._sock, 0)  # a hang-up is always told
        except ValueError:  # closed on our side
            return True
        return bool(poll.poll(0))

    def send(
        self, kind: Kind, value: Any = None, *, number: int = 0, until: float | None = None
    ) -> None:
        """Pickle and send."""
        self.send_parts(kind, dumped(value), number=number, until=until)

    def hold(self, kind: Kind, value: Any, *, number: int = 0) -> None:
        """Send something small together with what comes next: each send wakes the other side."""
        body = dumped(value)[0]
        self._held += _HEAD.pack(kind, number, 0, len(body)) + bytes(body)

    def send_parts(
        self, kind: Kind, parts: Sequence[Buffer], *, number: int = 0, until: float | None = None
    ) -> None:
        """Send what `dumped` made, and before it what was held."""
        body, *beside = parts
        head = _HEAD.pack(kind, number, len(beside), len(body))
        chunks: list[Buffer] = [self._held, head, body]
        self._held = b""
        for buffer in beside:
            chunks += (_SIZE.pack(len(buffer)), buffer)
        if sum(map(len, chunks)) < _SMALL:
            chunks = [b"".join(chunks)]
        for chunk in chunks:
            view = memoryview(chunk)
            while view:
                view = view[self._sent(view, until) :]

    def receive(self, until: float | None = None) -> Frame:
        """The next frame."""
        kind, number, count, size = _HEAD.unpack(self._exactly(_HEAD.size, until))
        if kind not in _KINDS or size > _LARGEST:
            raise Lost("It wrote something else into its channel.")
        parts: list[Buffer] = [self._exactly(size, until)]
        for _ in range(count):
            (size,) = _SIZE.unpack(self._exactly(_SIZE.size, until))
            parts.append(self._exactly(size, until))
        return Frame(_KINDS[kind], number, parts)

    def _exactly(self, size: int, until: float | None) -> bytearray:
        """Read `size` bytes; small ones come with as much of what follows as is there."""
        while len(self._ahead) - self._at < size < _SMALL:
            came = self._heard(self._sock.recv, until, _SMALL)
            self._ahead, self._at = self._ahead[self._at :] + came, 0
        taken = self._ahead[self._at : self._at + size]
        self._at += len(taken)
        if (missing := size - len(taken)) > 0:
            taken.extend(bytes(missing))
            view = memoryview(taken)
            while missing:
                missing -= self._heard(self._sock.recv_into, until, view[size - missing :])
        return taken

    def _sent(self, view: memoryview, until: float | None) -> int:
        try:
            return self._sock.send(view)
        except BlockingIOError:
            self._await_room(until)
            return 0
        except OSError as error:
            raise Lost(f"It closed its channel ({error.strerror}).") from error

    def _await_room(self, until: float | None) -> None:
        outgoing = select.poll()
        try:
            outgoing.register(self._sock, select.POLLOUT)
        except ValueError as error:  # closed on our side, by another thread
            raise Lost("Its channel was closed.") from error
        if not outgoing.poll(_left_ms(until)):
            raise TimeoutError

    def _heard(self, receive: Callable[..., Any], until: float | None, where: Any) -> Any:
        while True:
            try:
                got = receive(where)
            except BlockingIOError:
                if not self._came(until):
                    raise TimeoutError from None
                continue
            except OSError as error:
                raise Lost(f"It closed its channel ({error.strerror}).") from error
            if not got:
                raise Lost("It closed its channel.")
            return got

    def _came(self, until: float | None) -> bool:
        if self._sock.fileno() < 0:  # its number may be another file's by now
            raise Lost("Its channel was closed.")
        try:
            return bool(self._incoming.poll(_left_ms(until)))
        except RuntimeError:  # another thread waits, and a poll object serves one at a time
            incoming = select.poll()
            incoming.register(self._sock, select.POLLIN)
            return bool(incoming.poll(_left_ms(until)))


def _left_ms(until: float | None) -> float | None:
    return None if until is None else max(0.0, until - time.monotonic()) * 1000


_KINDS: dict[int, Kind] = {int(kind): kind for kind in Kind}
