"""One file over HTTP, resumed where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

PART = ".part"
IDENTITY = {"Accept-Encoding": "identity"}
"""Compressed, a range would count other bytes than the file has."""
RANGE_NOT_SATISFIABLE = 416


def download(
    client: httpx.Client, url: str, target: Path, size: int | None, heard: Callable[[int], None]
) -> None:
    """Bring `url` to `target`; `heard` hears how many bytes of it are there.

    What has come stands in `<target>.part`, so that another call goes on from there. While
    something comes, a broken connection is taken up again. `size` is the file's, None where
    nobody has stated it: then the server's own word on the length has to do.

    Raises:
        httpx.HTTPError: the server refused (HTTPStatusError), or could not be reached.
        OSError: the file could not be written.
    """
    import httpx

    if target.is_file() and target.stat().st_size == size:
        heard(size)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + PART)
    part.touch()
    whole = False
    while not whole:
        begun = part.stat().st_size
        try:
            whole = begun == size or _receive(client, url, part, size, heard)
        except httpx.TransportError:
            if part.stat().st_size <= begun:
                raise
    part.replace(target)


def _receive(
    client: httpx.Client, url: str, part: Path, size: int | None, heard: Callable[[int], None]
) -> bool:
    """Write what the server sends; whether that is all of the file."""
    import httpx

    have = part.stat().st_size
    headers = {**IDENTITY, "Range": f"bytes={have}-"} if have else IDENTITY
    with client.stream("GET", url, headers=headers) as answer, part.open("r+b") as file:
        if have and answer.status_code == RANGE_NOT_SATISFIABLE:
            file.truncate(0)  # the part is longer than the file: it belongs to another one
            return False
        answer.raise_for_status()
        if not answer.headers.get("Content-Range", "").startswith(f"bytes {have}-"):
            have = 0  # the server sends all of it again
        file.truncate(have)
        file.seek(have)
        for chunk in answer.iter_raw():  # as it comes: what a larger chunk gathers can be lost
            file.write(chunk)
            heard(file.tell())
        got = file.tell()
        if size is not None and got != size:
            if got > size:
                file.truncate(0)
            raise httpx.RemoteProtocolError(f"{got} bytes of {part.name} came instead of {size}")
    return True
