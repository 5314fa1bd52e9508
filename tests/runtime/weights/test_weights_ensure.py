"""The cache: whole or absent, whatever happens, and where things are."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from platformdirs import user_cache_path
from tests.runtime.weights.local_servers import ScopeSite, sha256

from jumar.contracts.errors import Cancelled, DigestMismatch, InvalidValue, WeightsUnavailable
from jumar.runtime.weights import Job, Progress, cache_root, ensure, ensure_all, plan, where
from jumar.runtime.weights.cache import Slot
from jumar.runtime.weights.digests import sizes

MODEL = b"weights" * 100
SCOPE = "modelscope://owner/model"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.mkdir()
    (path / "model.bin").write_bytes(MODEL)
    (path / "config.json").write_text("{}")
    return path


@pytest.fixture
def pulled(scope: ScopeSite, model):  # type: ignore[no-untyped-def]
    """A model that stands in the cache, and its manifest."""
    scope.files.update({"model.bin": MODEL, "config.json": b"{}"})
    manifest = model(SCOPE)
    return manifest, ensure(manifest)


# A folder or a file of this machine


def test_a_folder_is_used_where_it_stands(folder, model, cache):
    assert ensure(model(folder)) == folder
    assert not cache.exists()


def test_a_file_can_be_the_weights(folder, model):
    path = folder / "model.bin"
    assert ensure(model(path, files={"model.bin": sha256(MODEL)})) == path


def test_a_tilde_is_the_home_folder(folder, model, monkeypatch):
    monkeypatch.setenv("HOME", str(folder.parent))
    assert ensure(model("~/own")) == folder


def test_a_relative_path_is_relative_to_the_manifests_folder(folder, model):
    assert ensure(model("own"), base=folder.parent) == folder


def test_a_relative_path_without_a_manifests_folder_is_refused(model):
    with pytest.raises(InvalidValue, match="relative path"):
        ensure(model("own"))


def test_a_folder_that_is_not_there_is_named(model, tmp_path):
    with pytest.raises(WeightsUnavailable, match="no file or folder.*nowhere"):
        ensure(model(tmp_path / "nowhere"))


def test_an_empty_folder_is_no_model(model, tmp_path):
    with pytest.raises(WeightsUnavailable, match="every file"):
        ensure(model(tmp_path / "own"), base=(tmp_path / "own").mkdir())


def test_a_folder_without_a_file_of_the_manifest_is_refused_and_the_file_named(folder, model):
    with pytest.raises(WeightsUnavailable, match=r"Missing: vae\.bin"):
        ensure(model(folder, files={"vae.bin": sha256(b"")}))


def test_a_folder_that_lacks_a_shard_of_its_index_is_refused(folder, model):
    shards = {"weight_map": {"a": "model-00001-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(shards))
    with pytest.raises(WeightsUnavailable, match="model-00001-of-00002"):
        ensure(model(folder))


def test_an_index_of_shards_that_cannot_be_read_is_named(folder, model):
    (folder / "model.safetensors.index.json").write_text("[")
    with pytest.raises(WeightsUnavailable, match=r"index\.json.*not a readable index"):
        ensure(model(folder))


def test_a_wrong_file_in_a_folder_is_refused_and_left_alone(folder, model):
    with pytest.raises(DigestMismatch, match=r"model\.bin.*the manifest"):
        ensure(model(folder, files={"model.bin": sha256(b"another")}))
    assert (folder / "model.bin").read_bytes() == MODEL


def test_digests_may_be_written_in_capitals(folder, model):
    assert ensure(model(folder, files={"model.bin": sha256(MODEL).upper()})) == folder


def test_a_folder_is_hashed_once_and_again_when_it_has_changed(folder, model):
    manifest = model(folder, files={"model.bin": sha256(MODEL)})
    assert hashed(manifest) == ["checking model.bin"]
    assert hashed(manifest) == []
    os.utime(folder / "model.bin", ns=(1, 1))
    assert hashed(manifest) == ["checking model.bin"]
    (folder / "model.bin").write_bytes(MODEL[::-1])
    with pytest.raises(DigestMismatch):
        ensure(manifest)


def test_a_folder_can_be_used_where_no_cache_can_be_written(folder, model, cache):
    cache.write_text("a file where the cache should be")
    assert ensure(model(folder, files={"model.bin": sha256(MODEL)})) == folder


# What stands in the cache


def test_a_cached_model_is_trusted_without_hashing_it(pulled):
    manifest, path = pulled
    assert hashed(manifest) == []
    assert ensure(manifest) == path


def test_verify_hashes_every_file(pulled):
    manifest, _ = pulled
    assert hashed(manifest, verify=True) == ["checking config.json", "checking model.bin"]


@pytest.mark.parametrize("change", ["cut", "gone"])
def test_a_cached_file_that_has_changed_is_refused_and_named(pulled, change):
    manifest, path = pulled
    if change == "cut":
        (path / "model.bin").write_bytes(MODEL[:-1])
    else:
        (path / "model.bin").unlink()
    with pytest.raises(DigestMismatch, match=r"model\.bin.*has changed") as caught:
        ensure(manifest)
    assert f"Remove the folder {str(path.parent)!r}" in str(caught.value.hint)
    (row,) = where(manifest)
    assert (row.complete, row.missing) == (False, ("model.bin",))


def test_verify_finds_a_change_that_keeps_the_size(pulled):
    manifest, path = pulled
    (path / "model.bin").write_bytes(MODEL[::-1])
    assert ensure(manifest) == path
    with pytest.raises(DigestMismatch, match=r"model\.bin.*has changed"):
        ensure(manifest, verify=True)


def test_a_marker_that_cannot_be_read_is_named(pulled):
    manifest, path = pulled
    (path.parent / "complete.json").write_text("{")
    with pytest.raises(WeightsUnavailable, match=r"complete\.json.*cannot be read"):
        ensure(manifest)


def test_a_folder_without_a_marker_is_fetched_again(pulled, scope):
    manifest, path = pulled
    (path.parent / "complete.json").unlink()
    scope.requests.clear()
    assert ensure(manifest) == path
    assert scope.fetched("model.bin")


def test_a_cache_can_be_carried_to_another_machine(pulled, cache, tmp_path, scope):
    manifest, _ = pulled
    carried = tmp_path / "carried"
    cache.rename(carried)
    scope.requests.clear()
    path = ensure(manifest, cache=carried, offline=True)
    assert (path / "model.bin").read_bytes() == MODEL
    assert not scope.requests


def test_other_digests_are_other_weights(pulled, model):
    assert ensure(model(SCOPE, files={"model.bin": sha256(MODEL)})) != pulled[1]


def test_the_offline_hint_names_the_folder_to_bring(pulled, cache, tmp_path):
    manifest, path = pulled
    with pytest.raises(WeightsUnavailable) as caught:
        ensure(manifest, cache=tmp_path / "empty", offline=True)
    assert repr(path.parent.name) in str(caught.value.hint)
    assert repr(str(tmp_path / "empty" / "weights")) in str(caught.value.hint)


def test_a_file_in_the_place_of_the_cache_says_which_switch_names_another(model, cache, scope):
    scope.files["model.bin"] = MODEL
    cache.write_text("in the way")
    with pytest.raises(WeightsUnavailable, match="cannot be put into the cache") as caught:
        ensure(model(SCOPE))
    assert "JUMAR_CACHE" in str(caught.value.hint)


def test_a_switch_with_a_word_that_is_neither_yes_nor_no_is_refused(model, scope, monkeypatch):
    monkeypatch.setenv("JUMAR_OFFLINE", "perhaps")
    with pytest.raises(InvalidValue, match="JUMAR_OFFLINE is 'perhaps'"):
        ensure(model(SCOPE))


def test_the_cache_is_the_users_folder_unless_a_switch_names_another(monkeypatch, tmp_path):
    monkeypatch.setenv("JUMAR_CACHE", "~/elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / "elsewhere"
    monkeypatch.delenv("JUMAR_CACHE")
    assert cache_root() == user_cache_path("jumar")
    assert cache_root(tmp_path) == tmp_path


# Names


def test_an_unknown_scheme_names_the_nearest(model):
    with pytest.raises(InvalidValue, match="unknown scheme 'modelskope'") as caught:
        ensure(model("modelskope://owner/model"))
    assert caught.value.hint == "Did you mean 'modelscope'?"


def test_unknown_weights_name_the_nearest(folder, model):
    with pytest.raises(InvalidValue, match="no weights called 'modle'") as caught:
        ensure(model(folder), "modle")
    assert caught.value.hint == "Did you mean 'model'?"


def test_a_model_path_is_used_instead_without_the_manifests_digests(model, folder, scope):
    manifest = model(SCOPE, files={"model.bin": sha256(b"the manifest's own")})
    assert ensure_all(manifest, model_path=folder) == {"model": folder}
    assert not scope.requests


# Converters


def upper(fetched: Path, made: Path) -> None:
    (made / "model.txt").write_text((fetched / "model.bin").read_text().upper())


def test_a_converter_runs_once_and_its_result_is_loaded(scope, model):
    scope.files["model.bin"] = MODEL
    ran: list[Path] = []

    def convert(fetched: Path, made: Path) -> None:
        ran.append(made)
        upper(fetched, made)

    manifest = model(SCOPE, convert="upper")
    first = ensure(manifest, converters={"upper": convert})
    assert ensure(manifest, converters={"upper": convert}) == first
    assert len(ran) == 1
    assert [p.name for p in first.iterdir()] == ["model.txt"]
    assert (first / "model.txt").read_text() == MODEL.decode().upper()


def test_a_folder_of_this_machine_is_converted_into_the_cache(folder, model, cache):
    path = ensure(model(folder, convert="upper"), converters={"upper": upper})
    assert path.is_relative_to(cache)
    assert (folder / "model.bin").read_bytes() == MODEL


def test_a_single_file_is_converted_from_a_folder_that_holds_it(folder, model):
    path = ensure(model(folder / "model.bin", convert="upper"), converters={"upper": upper})
    assert (path / "model.txt").read_text() == MODEL.decode().upper()


def test_a_converter_that_fails_leaves_nothing_to_load(scope, model):
    scope.files["model.bin"] = MODEL

    def fail(fetched: Path, made: Path) -> None:
        (made / "model.txt").write_text("half")
        raise ValueError("unknown layer")

    manifest = model(SCOPE, convert="upper")
    with pytest.raises(WeightsUnavailable, match="converter 'upper' failed") as caught:
        ensure(manifest, converters={"upper": fail})
    assert caught.value.cause == "ValueError: unknown layer"
    assert not where(manifest)[0].complete
    assert (ensure(manifest, converters={"upper": upper}) / "model.txt").exists()


def test_a_converter_that_misses_a_file_is_told_from_a_cache_that_cannot_be_written(scope, model):
    scope.files["another.bin"] = MODEL
    with pytest.raises(WeightsUnavailable, match="converter 'upper' failed") as caught:
        ensure(model(SCOPE, convert="upper"), converters={"upper": upper})
    assert "FileNotFoundError" in str(caught.value.cause)


def test_an_error_that_a_converter_words_itself_is_passed_on(scope, model):
    scope.files["model.bin"] = MODEL

    def refuse(fetched: Path, made: Path) -> None:
        raise InvalidValue("This is a version 5, and only 6 is known.")

    with pytest.raises(InvalidValue, match="only 6 is known"):
        ensure(model(SCOPE, convert="upper"), converters={"upper": refuse})


def test_a_disk_that_is_full_while_converting_is_told_as_such(scope, model):
    scope.files["model.bin"] = MODEL

    def fill(fetched: Path, made: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(WeightsUnavailable, match="No space left on device") as caught:
        ensure(model(SCOPE, convert="upper"), converters={"upper": fill})
    assert "Free some space" in str(caught.value.hint)


def test_a_converter_that_makes_nothing_is_refused(scope, model):
    scope.files["model.bin"] = MODEL
    with pytest.raises(WeightsUnavailable, match="What the converter 'upper' made"):
        ensure(model(SCOPE, convert="upper"), converters={"upper": lambda fetched, made: None})


def test_an_unknown_converter_is_refused_before_anything_is_fetched(scope, model):
    with pytest.raises(InvalidValue, match="no converter 'uper'") as caught:
        ensure(model(SCOPE, convert="uper"), converters={"upper": upper})
    assert caught.value.hint == "Did you mean 'upper'?"
    assert not scope.requests


def test_what_the_listener_raises_is_not_taken_for_a_fault_of_the_cache(scope, model):
    scope.files["model.bin"] = MODEL

    def gone(progress: object) -> None:
        raise BrokenPipeError("nobody reads this any more")

    with pytest.raises(BrokenPipeError):
        ensure(model(SCOPE), progress=gone)


def test_a_listener_hears_each_step_begin_and_end_and_little_between(monkeypatch):
    monkeypatch.setattr("jumar.runtime.weights.base.TELL_S", float("inf"))
    heard: list[Progress] = []
    job = Job(heard.append)
    for what in ("first", "second"):
        for done in range(101):
            job.tell(what, done, 100)
    assert [(p.what, p.done_bytes) for p in heard] == [
        *(("first", 0), ("first", 100)),
        *(("second", 0), ("second", 100)),
    ]


# Other processes


CHILD = """
import os, signal, sys
from jumar.catalog.manifest import Manifest, Weights
from jumar.runtime.weights import ensure

weights = Weights("modelscope://owner/model", convert=sys.argv[1] or None)
manifest = Manifest(id="a-model", summary="", family="none", tier="experimental",
    licence="Apache-2.0", tasks={}, weights={"model": weights})

def die(fetched, made):
    (made / "model.txt").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)

print(ensure(manifest, converters={"die": die}, progress=lambda p: print(p.what, flush=True)))
"""


def child(convert: str = "") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, convert], stdout=subprocess.PIPE, text=True
    )


def test_two_processes_fetch_once_and_the_second_says_that_it_waits(scope, model):
    scope.files["model.bin"], scope.gate = MODEL, threading.Event()
    first, second = child(), child()
    # Whoever came second tells of the lock; only then may the server send the file.
    waiting = [
        threading.Thread(target=let_go, args=(process, scope.gate)) for process in (first, second)
    ]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join(60)
    assert (first.wait(60), second.wait(60)) == (0, 0)
    assert scope.gate.is_set()
    assert len(scope.fetched("model.bin")) == 1
    assert (ensure(model(SCOPE)) / "model.bin").read_bytes() == MODEL


def test_a_call_that_waits_for_another_can_be_stopped(scope, model, cache):
    stop, heard = threading.Event(), []

    def stop_when_waiting(progress: Progress) -> None:
        heard.append(progress.what)
        stop.set()

    slot = Slot(cache, model(SCOPE).weights["model"])
    with slot.writing(), slot.locked(Job()), pytest.raises(Cancelled):
        ensure(model(SCOPE), progress=stop_when_waiting, cancel=stop)
    assert heard == [f"waiting for another process that fetches {SCOPE}"]
    assert not scope.requests


def let_go(process: subprocess.Popen[str], gate: threading.Event) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            if line.startswith("waiting for another process"):
                gate.set()


def test_a_killed_conversion_leaves_nothing_to_load(scope, model):
    scope.files["model.bin"] = MODEL
    with child("die") as process:
        process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    manifest = model(SCOPE, convert="die")
    assert not where(manifest)[0].complete
    scope.requests.clear()
    path = ensure(manifest, converters={"die": upper})
    assert (path / "model.txt").read_text() == MODEL.decode().upper()
    assert not scope.fetched("model.bin")  # what had been fetched was still there


# Where things are


def test_where_tells_without_fetching(scope, model):
    scope.files["model.bin"] = MODEL
    (row,) = where(model(SCOPE, files={"model.bin": sha256(MODEL)}))
    assert (row.name, row.source, row.path, row.size) == ("model", SCOPE, None, 0)
    assert (row.complete, row.missing) == (False, ("model.bin",))
    assert not scope.requests


def test_where_gives_path_and_size_of_what_is_there(pulled, folder, model):
    manifest, path = pulled
    (row,) = where(manifest)
    assert (row.path, row.size, row.complete) == (path, len(MODEL) + 2, True)
    (row,) = where(model(folder))
    assert (row.path, row.size, row.complete) == (folder, len(MODEL) + 2, True)


def test_a_folder_that_vanishes_while_it_is_read_is_not_counted(folder, monkeypatch):
    (folder / "temporary").mkdir()
    (folder / "temporary" / "file").write_text("soon gone")
    scandir = os.scandir

    def remove_first(path):  # type: ignore[no-untyped-def]
        if str(path).endswith("temporary") and Path(path).exists():
            (Path(path) / "file").unlink()
            Path(path).rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", remove_first)
    assert sizes(folder) == {"model.bin": len(MODEL), "config.json": 2}
    assert not (folder / "temporary").exists()


def test_where_names_what_a_folder_lacks(folder, model):
    (row,) = where(model(folder, files={"vae.bin": sha256(b"")}))
    assert (row.complete, row.missing) == (False, ("vae.bin",))


def test_plan_is_what_is_not_there_yet(pulled, model):
    manifest, _ = pulled
    assert plan(manifest) == []
    assert [row.name for row in plan(model(SCOPE, include=("*.json",)))] == ["model"]


def hashed(manifest, **options):  # type: ignore[no-untyped-def]
    heard: list[str] = []
    ensure(manifest, progress=lambda p: heard.append(p.what), **options)
    return sorted(what for what in heard if what.startswith("checking"))
