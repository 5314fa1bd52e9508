"""Frames arrive whole, or not at all."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.isolate.frames import Channel, Kind, Lost, dumped

VALUES = st.lists(st.one_of(st.integers(), st.text(), st.binary(max_size=100)), max_size=5)


@pytest.fixture
def ends() -> Iterator[tuple[Channel, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours), theirs


def wire(*values: object) -> bytes:
    """The bytes of these values' frames, numbered from 0."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(ours)
        for number, value in enumerate(values):
            channel.send(Kind.CALL, value, number=number)
        ours.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: theirs.recv(1 << 16), b""))


@settings(deadline=None, max_examples=50)
@given(values=VALUES, cut=st.integers(min_value=0))
def test_frames_that_come_in_pieces_are_read_whole(values: list[object], cut: int) -> None:
    sent = wire(*values, "last")
    at = cut % len(sent)
    ours, theirs = socket.socketpair()
    with ours, theirs, ThreadPoolExecutor(1) as pool:
        channel = Channel(ours)
        reading = pool.submit(lambda: [channel.receive() for _ in [*values, "last"]])
        theirs.sendall(sent[:at])
        theirs.sendall(sent[at:])
        frames = reading.result()
    assert [(f.number, f.value()) for f in frames] == list(enumerate([*values, "last"]))


@settings(deadline=None, max_examples=50)
@given(values=VALUES)
def test_several_frames_in_one_read_stay_apart(values: list[object]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(wire(*values))
        channel = Channel(ours)
        read = [channel.receive().value() for _ in values]
    assert read == values


def test_large_buffers_go_beside_the_pickle() -> None:
    body, beside = dumped({"weights": pickle.PickleBuffer(bytearray(1 << 20))})
    assert len(body) < 200 and len(beside) == 1 << 20


def test_the_other_end_closing_is_told_from_silence(
    ends: tuple[Channel, socket.socket],
) -> None:
    channel, other = ends
    with pytest.raises(TimeoutError):
        channel.receive(until=time.monotonic() + 0.01)
    other.close()
    with pytest.raises(Lost):
        channel.receive()
    with pytest.raises(Lost):
        channel.send(Kind.CALL)


def test_a_half_frame_before_the_end_is_lost(ends: tuple[Channel, socket.socket]) -> None:
    channel, other = ends
    other.sendall(wire("a")[:-1])
    other.close()
    with pytest.raises(Lost):
        channel.receive()


@pytest.mark.parametrize("bytes_", [b"\xff" * 64, b"\x01" + b"\xff" * 63])
def test_what_is_no_frame_is_found_out(ends: tuple[Channel, socket.socket], bytes_: bytes) -> None:
    channel, other = ends
    other.sendall(bytes_)
    with pytest.raises(Lost, match="something else"):
        channel.receive()


def test_a_frame_that_nobody_reads_meets_the_limit(ends: tuple[Channel, socket.socket]) -> None:
    channel, _ = ends
    with pytest.raises(TimeoutError):
        channel.send(Kind.CALL, bytes(10 << 20), until=time.monotonic() + 0.05)


def test_one_thread_asks_what_is_ready_while_another_waits_for_it(
    ends: tuple[Channel, socket.socket],
) -> None:
    ours, theirs = ends
    with ThreadPoolExecutor(1) as other:
        waits = other.submit(ours.ready, time.monotonic() + 30)
        until = time.monotonic() + 0.3  # the other one is in the middle of it by then
        while time.monotonic() < until:
            assert not ours.ready(time.monotonic() + 0.05)
        Channel(theirs).send(Kind.READY)
        assert waits.result(30)
