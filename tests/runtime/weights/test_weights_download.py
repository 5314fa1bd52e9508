"""Resuming one file, for every length and every kind of server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.runtime.weights.base import is_inside, selected
from jumar.runtime.weights.download import download

CONTENTS = st.binary(min_size=1, max_size=64)


class Broken(httpx.SyncByteStream):
    """A body that breaks off after `upto` bytes, if that is less than it has."""

    def __init__(self, body: bytes, upto: int) -> None:
        self._body, self._upto = body, upto

    def __iter__(self) -> Iterator[bytes]:
        yield self._body[: self._upto]
        if self._upto < len(self._body):
            raise httpx.ReadError("connection reset")


def client(content: bytes, *, ranges: bool = True, breaks: list[int] | None = None) -> httpx.Client:
    """A server of one file, that may not know ranges, and breaks off as often as told."""
    breaks = list(breaks or [])

    def answer(request: httpx.Request) -> httpx.Response:
        begin = int(request.headers.get("Range", "bytes=0-")[len("bytes=") : -1])
        upto = breaks.pop(0) if breaks else len(content)
        if not ranges or "Range" not in request.headers:
            return httpx.Response(200, stream=Broken(content, upto))
        if begin >= len(content):
            return httpx.Response(416)
        span = {"Content-Range": f"bytes {begin}-{len(content) - 1}/{len(content)}"}
        return httpx.Response(206, headers=span, stream=Broken(content[begin:], upto))

    return httpx.Client(transport=httpx.MockTransport(answer))


def fetch(web: httpx.Client, size: int | None, part: bytes = b"") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "deep" / "file"
        target.parent.mkdir()
        target.with_name("file.part").write_bytes(part)
        download(web, "http://127.0.0.1/file", target, size, lambda _: None)
        assert [path.name for path in target.parent.iterdir()] == ["file"]
        return target.read_bytes()


@settings(deadline=None)
@given(CONTENTS, st.data())
def test_any_part_is_completed_to_the_same_bytes(content: bytes, data: st.DataObject) -> None:
    part = content[: data.draw(st.integers(0, len(content)))]
    size = data.draw(st.sampled_from([len(content), None]))
    assert fetch(client(content, ranges=data.draw(st.booleans())), size, part) == content


@settings(deadline=None)
@given(CONTENTS, st.lists(st.integers(1, 64), max_size=5))
def test_a_file_arrives_whole_however_often_the_connection_breaks(
    content: bytes, breaks: list[int]
) -> None:
    assert fetch(client(content, breaks=breaks), len(content)) == content


@settings(deadline=None)
@given(CONTENTS, st.binary(min_size=1, max_size=8))
def test_a_part_that_is_longer_than_the_file_is_begun_again(content: bytes, more: bytes) -> None:
    assert fetch(client(content), len(content), content + more) == content


def test_a_connection_that_brings_nothing_is_not_tried_for_ever() -> None:
    with pytest.raises(httpx.ReadError):
        fetch(client(b"content", breaks=[0] * 99), 7)


def test_a_file_of_another_length_than_announced_is_no_file() -> None:
    with pytest.raises(httpx.RemoteProtocolError, match="7 bytes of file.part came instead of 5"):
        fetch(client(b"content"), 5)


@settings(deadline=None)
@given(st.text("ab./\\", max_size=12))
def test_a_name_that_is_called_inside_is_inside(name: str) -> None:
    root = Path("/root/of")
    if is_inside(name):
        parts = [part for part in (root / name).parts if part != "."]
        assert tuple(parts[: len(root.parts)]) == root.parts
        assert ".." not in parts


@pytest.mark.parametrize("name", ["../x", "a/../../x", "/etc/passwd", "..", "a\\..\\x"])
def test_a_name_that_leads_out_is_seen(name: str) -> None:
    assert not is_inside(name)


def test_patterns_choose_and_no_pattern_means_all() -> None:
    paths = ["b.json", "a/c.bin", "a/d.json"]
    assert selected(paths, ()) == ["a/c.bin", "a/d.json", "b.json"]
    assert selected(paths, ("*.json",)) == ["a/d.json", "b.json"]
    assert selected(paths, ("a/*", "b.json")) == ["a/c.bin", "a/d.json", "b.json"]
