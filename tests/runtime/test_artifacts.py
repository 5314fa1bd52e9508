"""Files are whole or absent, named by content, and never written over another."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from jumar.contracts.errors import InvalidValue, OutputFailed
from jumar.contracts.results import Artifact
from jumar.runtime.artifacts import Destination
from jumar.runtime.families.base import Draft


def draft(content: bytes = b"sound", suffix: str = ".wav") -> Draft:
    return Draft(kind="audio", mime="audio/wav", suffix=suffix, write=lambda f: f.write(content))


def store(destination: Destination, *drafts: Draft) -> list[Artifact]:
    return list(destination.store(list(drafts), "voice"))


def test_a_file_is_named_by_its_content_and_described(tmp_path: Path) -> None:
    (artifact,) = store(Destination(tmp_path / "new" / "deep", suffix=".wav"), draft())
    digest = hashlib.sha256(b"sound").hexdigest()
    assert Path(artifact.path) == tmp_path / "new" / "deep" / f"voice-{digest[:16]}.wav"
    assert Path(artifact.path).read_bytes() == b"sound"
    assert (artifact.sha256, artifact.size_bytes) == (digest, 5)


def test_equal_content_is_one_file_and_other_content_another(tmp_path: Path) -> None:
    destination = Destination(tmp_path, suffix=".wav")
    first, again, other = store(destination, draft(), draft(), draft(b"noise"))
    assert first.path == again.path != other.path
    assert len(list(tmp_path.iterdir())) == 2


def test_a_named_file_gets_its_name_and_further_ones_a_number(tmp_path: Path) -> None:
    made = store(Destination(tmp_path / "a.wav", suffix=".wav"), draft(b"1"), draft(b"2"))
    assert [Path(artifact.path).name for artifact in made] == ["a.wav", "a-2.wav"]


def test_a_named_file_that_exists_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_bytes(b"precious")
    with pytest.raises(OutputFailed, match="exists"):
        Destination(tmp_path / "a.wav", suffix=".wav")
    assert (tmp_path / "a.wav").read_bytes() == b"precious"
    store(Destination(tmp_path / "a.wav", suffix=".wav", overwrite=True), draft(b"new"))
    assert (tmp_path / "a.wav").read_bytes() == b"new"


def test_a_file_that_appears_during_the_run_is_not_written_over(tmp_path: Path) -> None:
    destination = Destination(tmp_path / "a.wav", suffix=".wav")
    (tmp_path / "a.wav").write_bytes(b"precious")
    with pytest.raises(OutputFailed, match="exists"):
        store(destination, draft())
    assert (tmp_path / "a.wav").read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["a.wav"]


def test_a_name_with_the_wrong_suffix_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"ends in \.png; this run makes \.wav"):
        Destination(tmp_path / "a.png", suffix=".wav")


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFailed, match="Cannot write"):
        Destination(tmp_path / "file" / "below", suffix=".wav")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_leaves_nothing_and_keeps_what_was_there(tmp_path: Path, number: int) -> None:
    destination = Destination(tmp_path, suffix=".wav")
    (kept,) = store(destination, draft())

    def half(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(number, os.strerror(number))

    broken = Draft(kind="audio", mime="audio/wav", suffix=".wav", write=half)
    with pytest.raises(OutputFailed, match="the disk is full"):
        store(destination, broken)
    assert os.listdir(tmp_path) == [Path(kept.path).name]


def test_an_error_or_ctrl_c_while_writing_leaves_nothing(tmp_path: Path) -> None:
    def stopped(file: BinaryIO) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    broken = Draft(kind="audio", mime="audio/wav", suffix=".wav", write=stopped)
    with pytest.raises(KeyboardInterrupt):
        store(Destination(tmp_path, suffix=".wav"), broken)
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission_is_refused(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    with pytest.raises(OutputFailed, match="Cannot write"):
        Destination(locked, suffix=".wav")


@pytest.mark.parametrize("name", ["\udcff.wav", "\udcff"])
def test_a_name_that_a_report_cannot_hold_is_refused_before_the_run(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match="is no UTF-8"):
        Destination(tmp_path / name, suffix=".wav")
    assert list(tmp_path.iterdir()) == []
