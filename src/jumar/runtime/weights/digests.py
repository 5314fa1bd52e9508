"""Which files are there, which are missing, and whether they are the ones they should be."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from jumar.contracts.errors import DigestMismatch, WeightsUnavailable
from jumar.runtime.weights.base import Job

CHUNK = 1 << 20


def sizes(root: Path) -> dict[str, int]:
    """Bytes of every file under `root` by relative path; of a single file, by its name.

    What somebody removes meanwhile (pip its temporary folders) is not counted.
    """
    if root.is_file():
        return {root.name: root.stat().st_size}
    found = {}
    for folder, _, names in os.walk(root):  # unlike rglob, it goes on where a folder is gone
        for name in names:
            path = Path(folder, name)
            with suppress(FileNotFoundError):
                found[path.relative_to(root).as_posix()] = path.stat().st_size
    return dict(sorted(found.items()))


def sha256(path: Path, job: Job, done: int = 0, total: int | None = None) -> str:
    """Hash a file, telling `job`; `done` and `total` count the bytes of all files."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
            done += len(chunk)
            job.tell(f"checking {path.name}", done, total)
    return digest.hexdigest()


def hash_all(root: Path, names: Iterable[str], job: Job) -> dict[str, str]:
    """sha256 by relative path."""
    folder = root.parent if root.is_file() else root
    paths = {name: folder / name for name in names}
    total, done, digests = sum(path.stat().st_size for path in paths.values()), 0, {}
    for name, path in paths.items():
        digests[name] = sha256(path, job, done, total)
        done += path.stat().st_size
    return digests


def missing(root: Path, named: Iterable[str]) -> list[str]:
    """The files that should be under `root` and are not: those that the manifest names, and the
    shards that an index of safetensors or PyTorch (`*.index.json`, key `weight_map`) lists.
    """
    folder = root.parent if root.is_file() else root
    wanted = set(named)
    for index in folder.rglob("*.index.json") if root.is_dir() else ():
        inside = index.parent.relative_to(folder)
        wanted |= {(inside / shard).as_posix() for shard in _shards(index)}
    return sorted(name for name in wanted if not (folder / name).is_file())


def require(root: Path, named: Iterable[str], source: str) -> None:
    """Refuse a partial set of files.

    Raises:
        WeightsUnavailable: naming the files that are missing.
    """
    lost = missing(root, named)
    if not lost and root.is_dir() and not any(root.iterdir()):
        lost = ["every file"]
    if lost:
        shown = ", ".join(lost[:8]) + (f" and {len(lost) - 8} more" if len(lost) > 8 else "")
        raise WeightsUnavailable(
            f"{source} is incomplete in {str(root)!r}. Missing: {shown}.",
            hint="Bring the missing files; a part of a model is never loaded.",
        )


def compare(expected: Mapping[str, str], got: Mapping[str, str], source: str, *, by: str) -> None:
    """Refuse a file that is not the one that the manifest, or the origin, names.

    Raises:
        DigestMismatch: for the first such file; its name is the error's `param`.
    """
    for name, digest in expected.items():
        if got[name] != digest.lower():
            raise DigestMismatch(
                f"{name} of {source} is not the file that {by} names: "
                f"expected sha256 {digest.lower()}, got {got[name]}.",
                hint="Fetch it again; where it stays so, the file was changed at its source.",
                param=name,
            )


def _shards(index: Path) -> set[str]:
    try:
        return set(json.loads(index.read_text(encoding="utf-8")).get("weight_map", {}).values())
    except (ValueError, AttributeError) as error:
        raise WeightsUnavailable(f"{str(index)!r} is not a readable index of shards.") from error
