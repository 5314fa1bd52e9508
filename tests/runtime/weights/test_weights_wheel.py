"""wheel:, against a package index on 127.0.0.1 and the real pip."""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.runtime.weights.local_servers import IndexSite, sha256, wheel

from jumar.contracts.errors import (
    Cancelled,
    DependencyMissing,
    DigestMismatch,
    InvalidValue,
    WeightsUnavailable,
)
from jumar.runtime.weights import ensure, where
from jumar.runtime.weights.wheel import Wheel

MODEL = b"\0weights\n" * 1000
FILES = {
    "tiny_voice/__init__.py": b"raise SystemExit('a wheel is never run')",
    "tiny_voice/model/voice.onnx": MODEL,
    "tiny_voice/model/config.json": b"{}",
}
SOURCE = "wheel:tiny-voice==1.0#tiny_voice/model"


@pytest.fixture
def tiny(index: IndexSite) -> IndexSite:
    """An index that has two versions; the tests that use it run pip."""
    index.files |= wheel("tiny_voice", "1.0", FILES) | wheel("tiny_voice", "2.0", FILES)
    return index


@pytest.fixture
def pip_brings(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, bytes]], None]:
    """Puts a wheel where pip would have put it, for the tests of what happens then."""

    def bring(files: dict[str, bytes]) -> None:
        ((name, data),) = files.items()

        def download(self: Wheel, work: Path, job: object) -> Path:
            (work / name).write_bytes(data)
            return work / name

        monkeypatch.setattr(Wheel, "_download", download)

    return bring


@pytest.fixture
def brought(pip_brings) -> None:
    pip_brings(wheel("tiny_voice", "1.0", FILES))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """tiny-voice 1.0 in a folder of sys.path, as pip leaves it."""
    site = tmp_path / "site-packages"
    ((_, data),) = wheel("tiny_voice", "1.0", FILES).items()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(site)
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


# With pip


def test_the_files_come_through_pip_and_nothing_of_them_is_run(tiny, model, cache):
    wanted = model(SOURCE, files={"voice.onnx": sha256(MODEL)})
    path = ensure(wanted)
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "voice.onnx"]
    assert (path / "voice.onnx").read_bytes() == MODEL
    assert not [p for p in cache.rglob("*") if p.suffix in (".whl", ".part")]

    assert ensure(wanted) == path
    assert [r.path for r in tiny.requests if "/wheels/" in r.path] == [
        "/wheels/tiny_voice-1.0-py3-none-any.whl"
    ]


def test_a_version_that_the_index_does_not_have_shows_what_pip_said(tiny, model):
    with pytest.raises(WeightsUnavailable, match="pip could not download tiny-voice==9") as caught:
        ensure(model("wheel:tiny-voice==9#tiny_voice/model"))
    assert "from versions: 1.0, 2.0" in str(caught.value.cause)
    assert "PIP_INDEX_URL" in str(caught.value.hint)


def test_cancelling_ends_pip_and_leaves_nothing(tiny, model, cache):
    tiny.gate, stop = threading.Event(), threading.Event()

    def stop_at_once(progress: object) -> None:
        if tiny.fetched("tiny_voice-1.0-py3-none-any.whl"):
            stop.set()

    with pytest.raises(Cancelled):
        ensure(model(SOURCE), progress=stop_at_once, cancel=stop)
    assert not [p for p in cache.rglob("*") if p.is_file() and p.suffix != ".lock"]
    assert "tiny_voice-1.0-py3-none-any.whl" not in tiny.sent  # pip was ended, not waited for


def test_offline_forbids_the_download_and_says_so(tiny, model, monkeypatch):
    monkeypatch.setenv("JUMAR_OFFLINE", "1")
    with pytest.raises(WeightsUnavailable, match="JUMAR_OFFLINE=1 forbids"):
        ensure(model(SOURCE))
    assert not tiny.requests


# What is in the wheel


def test_a_single_file_is_given_as_a_file(brought, model):
    path = ensure(model(f"{SOURCE}/voice.onnx"))
    assert path.name == "voice.onnx"
    assert path.read_bytes() == MODEL


def test_include_chooses_among_the_files_of_the_path(brought, model):
    path = ensure(model(SOURCE, include=("*.onnx",)))
    assert [p.name for p in path.iterdir()] == ["voice.onnx"]


def test_a_whole_wheel_can_be_the_weights(brought, model):
    path = ensure(model("wheel:tiny-voice==1.0"))
    assert (path / "tiny_voice/model/voice.onnx").read_bytes() == MODEL


def test_a_path_that_the_wheel_does_not_have_is_named(brought, model):
    with pytest.raises(WeightsUnavailable, match="nothing at 'tiny_voice/modell'"):
        ensure(model("wheel:tiny-voice==1.0#tiny_voice/modell"))


def test_a_file_that_the_manifest_does_not_mean_is_refused(brought, model, cache):
    with pytest.raises(DigestMismatch) as caught:
        ensure(model(SOURCE, files={"voice.onnx": sha256(b"another")}))
    for said in ("voice.onnx", sha256(b"another"), sha256(MODEL)):
        assert said in caught.value.message
    assert not list(cache.rglob("voice.onnx"))


def test_a_file_that_the_wheel_itself_did_not_mean_is_refused(pip_brings, model):
    record = {"tiny_voice/model/voice.onnx": b"what RECORD speaks of"}
    pip_brings(wheel("tiny_voice", "1.0", FILES, record=record))
    with pytest.raises(DigestMismatch, match="its origin"):
        ensure(model(SOURCE))


def test_a_file_that_record_does_not_name_is_refused(pip_brings, model):
    pip_brings(wheel("tiny_voice", "1.0", FILES, record={"tiny_voice/model/config.json": None}))
    with pytest.raises(WeightsUnavailable, match=r"config\.json' is not in the RECORD"):
        ensure(model(SOURCE))


@pytest.mark.parametrize("evil", ["../evil", "tiny_voice/../../evil", "/tmp/evil", "a\\..\\evil"])
def test_a_wheel_with_an_entry_that_leads_out_is_refused_whole(pip_brings, model, tmp_path, evil):
    pip_brings(wheel("tiny_voice", "1.0", {**FILES, evil: b"evil"}))
    with pytest.raises(WeightsUnavailable, match="leads out of it"):
        ensure(model(SOURCE))
    assert not list(tmp_path.rglob("*evil*"))
    assert not list(tmp_path.rglob("voice.onnx"))


def test_a_wheel_with_a_link_is_refused(pip_brings, model, tmp_path):
    links = {"tiny_voice/model/link": "/etc/passwd"}
    pip_brings(wheel("tiny_voice", "1.0", FILES, symlinks=links))
    with pytest.raises(WeightsUnavailable, match="leads out of it"):
        ensure(model(SOURCE))
    assert not list(tmp_path.rglob("voice.onnx"))


@pytest.mark.parametrize(
    "damage", [lambda d: d[: len(d) // 2], lambda d: d.replace(MODEL, MODEL[::-1])]
)
def test_a_damaged_archive_is_no_wheel(pip_brings, model, damage):
    name, data = next(iter(wheel("tiny_voice", "1.0", FILES).items()))
    pip_brings({name: damage(data)})
    with pytest.raises(WeightsUnavailable, match="not a sound wheel") as caught:
        ensure(model(SOURCE))
    assert "BadZipFile" in str(caught.value.cause)


# Without a download


def test_without_pip_the_error_names_the_ways_out(model, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(DependencyMissing, match="pip is not in this environment") as caught:
        ensure(model("wheel:not-installed-here==1.0#x"))
    assert "ensurepip" in str(caught.value.hint)
    assert "uv pip install --no-deps not-installed-here==1.0" in str(caught.value.hint)


def test_an_installed_package_of_that_version_is_used_where_it_stands(
    index, model, installed, monkeypatch
):
    wanted = model(SOURCE, files={"voice.onnx": sha256(MODEL)})
    assert ensure(wanted) == installed / "tiny_voice/model"
    assert where(wanted)[0].complete
    assert not index.requests


def test_an_installed_package_of_another_version_is_not_used(tiny, model, installed, cache):
    assert ensure(model("wheel:tiny-voice==2.0#tiny_voice/model")).is_relative_to(cache)


def test_an_installed_file_that_the_manifest_does_not_mean_is_refused(model, installed):
    (installed / "tiny_voice/model/voice.onnx").write_bytes(b"edited by somebody")
    with pytest.raises(DigestMismatch, match=r"voice\.onnx"):
        ensure(model(SOURCE, files={"voice.onnx": sha256(MODEL)}))


@pytest.mark.parametrize(
    "locator",
    ["tiny-voice", "tiny-voice>=1.0#x", "tiny-voice==1.0#../x", "--help==1#x", "==1#x", ""],
)
def test_a_locator_of_another_form_is_refused(locator, model):
    with pytest.raises(InvalidValue, match="wheel:NAME==VERSION#path"):
        ensure(model(f"wheel:{locator}"))


def test_package_finds_files_without_importing_the_package(model, installed):
    assert ensure(model("package:tiny_voice#model")) == installed / "tiny_voice/model"
    assert "tiny_voice" not in sys.modules


def test_package_takes_the_name_of_a_distribution_too(model, installed):
    found = ensure(model("package:tiny-voice#tiny_voice/model/voice.onnx"))
    assert found == installed / "tiny_voice/model/voice.onnx"


def test_a_package_that_is_not_installed_says_how_to_get_it(model, cache):
    with pytest.raises(DependencyMissing, match="tiny-voice") as caught:
        ensure(model("package:tiny-voice#tiny_voice/model"))
    assert caught.value.hint == "Install it: pip install tiny-voice"
    assert not cache.exists()


def test_a_path_that_a_package_does_not_have_is_named(model, installed):
    with pytest.raises(WeightsUnavailable, match="has no 'modell'"):
        ensure(model("package:tiny_voice#modell"))


@pytest.mark.parametrize("locator", ["", "#x", "tiny_voice#../x", "tiny_voice#/etc/passwd"])
def test_a_package_locator_that_leads_out_is_refused(locator, model):
    with pytest.raises(InvalidValue, match="package:NAME#path"):
        ensure(model(f"package:{locator}"))
