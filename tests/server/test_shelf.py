"""Artifacts are found by their digest as long as they are kept, and no longer."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jumar.contracts.errors import NotFound
from jumar.contracts.results import Artifact, GenerateResult, RunReport
from jumar.server.shelf import Shelf


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "artifacts")


def made(shelf: Shelf, content: bytes) -> Artifact:
    """An artifact that a run has just written there."""
    digest = hashlib.sha256(content).hexdigest()
    file = shelf.folder / f"toy-{digest[:16]}.wav"
    file.write_bytes(content)
    artifact = Artifact(kind="audio", path=str(file), mime="audio/wav", sha256=digest)
    report = RunReport(run_id="r", task="text2audio", model="toy", backend="cpu")
    shelf.keep(GenerateResult(outputs=[artifact], metadata=report))
    return artifact


def test_an_artifact_is_found_by_its_digest(shelf: Shelf) -> None:
    artifact = made(shelf, b"hello")
    assert artifact.sha256 is not None
    assert shelf.find(artifact.sha256) == artifact


def test_many_may_make_the_same_artifact_at_once(shelf: Shelf) -> None:
    with ThreadPoolExecutor(8) as pool:
        digests = {one.sha256 for one in pool.map(lambda _: made(shelf, b"same"), range(200))}
    (digest,) = digests
    assert shelf.find(digest or "").sha256 == digest
    assert len(list(shelf.folder.iterdir())) == 2, "the file and its card"


@pytest.mark.parametrize("name", ["", "0" * 64, "../artifacts/x", "A" * 64, "0" * 63 + "/"])
def test_whatever_else_is_asked_for_is_not_there(shelf: Shelf, name: str) -> None:
    made(shelf, b"hello")
    with pytest.raises(NotFound):
        shelf.find(name)


def test_what_is_too_old_goes_and_what_was_made_again_stays(shelf: Shelf) -> None:
    old, new = made(shelf, b"old"), made(shelf, b"new")
    for file in shelf.folder.iterdir():
        os.utime(file, (time.time() - 100, time.time() - 100))
    made(shelf, b"new")
    shelf.sweep(50)
    assert shelf.find(new.sha256 or "") == new
    with pytest.raises(NotFound):
        shelf.find(old.sha256 or "")
    assert len(list(shelf.folder.iterdir())) == 2, "the file and its card"
