"""hf:// and modelscope://, against servers on 127.0.0.1."""

from __future__ import annotations

import errno
import socket
import sys
import threading
from pathlib import Path

import pytest
from tests.runtime.weights.local_servers import (
    COMMIT,
    Answer,
    HubSite,
    Site,
    running,
    sha256,
)

from jumar.contracts.errors import (
    Cancelled,
    DependencyMissing,
    DigestMismatch,
    InvalidValue,
    WeightsUnavailable,
)
from jumar.runtime.weights import Progress, ensure, where

BIG = bytes(range(256)) * 8192  # 2 MiB: more than one chunk
FILES = {"config.json": b"{}", "unet/model.bin": BIG}
SOURCES = {"hub": "hf://owner/model@main", "scope": "modelscope://owner/model@master"}


@pytest.fixture(params=SOURCES)
def site(request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    found.files.update(FILES)
    return found


@pytest.fixture
def source(site: Site) -> str:
    return SOURCES["hub" if isinstance(site, HubSite) else "scope"]


def test_a_snapshot_is_fetched_once_and_then_used_from_the_cache(site, source, model, cache):
    path = ensure(model(source))
    asked = len(site.requests)
    assert {p.relative_to(path).as_posix(): p.read_bytes() for p in files(path)} == FILES
    assert ensure(model(source)) == path
    assert len(site.requests) == asked
    assert path.is_relative_to(cache)
    assert not list(cache.rglob("*.part"))


def test_include_restricts_a_snapshot_to_its_patterns(site, source, model):
    path = ensure(model(source, include=("*.json",)))
    assert [p.name for p in files(path)] == ["config.json"]
    assert not site.fetched("unet/model.bin")


def test_patterns_that_match_nothing_are_named(site, source, model):
    with pytest.raises(WeightsUnavailable, match=r"no file that matches \*\.gguf"):
        ensure(model(source, include=("*.gguf",)))


def test_a_broken_transfer_goes_on_where_it_stopped(site, source, model):
    cut = len(BIG) // 2
    site.cut["unet/model.bin"], site.down_after_cut = cut, True
    with pytest.raises(WeightsUnavailable):
        ensure(model(source))
    row = where(model(source))[0]
    assert (row.path, row.complete, row.size) == (None, False, cut + len(FILES["config.json"]))

    site.mend()
    site.requests.clear()
    path = ensure(model(source))
    assert [r.range for r in site.fetched("unet/model.bin")] == [f"bytes={cut}-"]
    assert not site.fetched("config.json")
    assert (path / "unet/model.bin").read_bytes() == BIG


def test_a_connection_that_breaks_once_is_taken_up_in_the_same_call(site, source, model):
    cut = len(BIG) // 2
    site.cut["unet/model.bin"] = cut
    path = ensure(model(source))
    assert [r.range for r in site.fetched("unet/model.bin")] == [None, f"bytes={cut}-"]
    assert (path / "unet/model.bin").read_bytes() == BIG


def test_a_file_that_the_manifest_does_not_mean_is_refused_and_removed(site, source, model, cache):
    expected = sha256(b"something else")
    with pytest.raises(DigestMismatch) as caught:
        ensure(model(source, files={"unet/model.bin": expected}))
    for part in ("unet/model.bin", expected, sha256(BIG), "the manifest"):
        assert part in caught.value.message
    assert not list(cache.rglob("model.bin"))


def test_a_file_that_the_hub_itself_did_not_mean_is_refused(site, source, model):
    site.listed["unet/model.bin"] = sha256(b"what the listing says")
    with pytest.raises(DigestMismatch, match="its origin"):
        ensure(model(source))


def test_after_a_wrong_digest_the_right_file_is_fetched(site, source, model):
    site.files["unet/model.bin"] = BIG[::-1]
    right = model(source, files={"unet/model.bin": sha256(BIG)})
    with pytest.raises(DigestMismatch):
        ensure(right)
    site.files["unet/model.bin"] = BIG
    assert (ensure(right) / "unet/model.bin").read_bytes() == BIG


def test_a_snapshot_without_a_file_of_the_manifest_is_partial_and_never_used(site, source, model):
    wanted = model(source, files={"vae/model.bin": sha256(b"")})
    with pytest.raises(WeightsUnavailable, match=r"incomplete.*vae/model\.bin"):
        ensure(wanted)
    assert not where(wanted)[0].complete


def test_shards_that_an_index_lists_and_that_are_not_there_are_named(site, source, model):
    site.files["model.safetensors.index.json"] = (
        b'{"weight_map": {"a": "model-2-of-2.safetensors"}}'
    )
    with pytest.raises(WeightsUnavailable, match=r"model-2-of-2\.safetensors"):
        ensure(model(source))


REFUSALS = {
    401: (r"wants a login", "TOKEN"),
    403: (r"may not be read", "TOKEN"),
    404: (r"does not exist", "spelling"),
    429: (r"too often", "mirror"),
    503: (r"has a fault", "mirror"),
}


@pytest.mark.parametrize("status", REFUSALS)
def test_a_refusal_of_the_hub_says_what_it_means_and_what_to_do(site, source, model, status):
    site.refuses = (status, {})
    says, hint = REFUSALS[status]
    with pytest.raises(WeightsUnavailable, match=says) as caught:
        ensure(model(source))
    assert hint in str(caught.value.hint)
    assert str(status) in caught.value.message
    assert site.url in caught.value.message
    assert caught.value.cause


def test_a_revision_that_is_not_there_is_typed(site, source, model):
    with pytest.raises(WeightsUnavailable, match="no such revision"):
        ensure(model(source.replace("main", "v9").replace("master", "v9")))


def test_a_gated_repository_says_so(hub, model):
    hub.refuses = (403, {"X-Error-Code": "GatedRepo"})
    with pytest.raises(WeightsUnavailable, match="gated") as caught:
        ensure(model("hf://owner/model"))
    assert "HF_TOKEN" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("switch", "source"),
    [("HF_ENDPOINT", SOURCES["hub"]), ("MODELSCOPE_ENDPOINT", SOURCES["scope"])],
)
def test_a_hub_that_cannot_be_reached_is_named_with_the_mirror_switch(
    switch, source, model, monkeypatch, request
):
    request.getfixturevalue("hub")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening: connections are refused
        endpoint = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv(switch, endpoint)
        with pytest.raises(WeightsUnavailable) as caught:
            ensure(model(source))
    assert endpoint in caught.value.message
    assert switch in str(caught.value.hint)
    assert "goes on where it stopped" in str(caught.value.hint)


def test_a_hub_that_falls_silent_is_given_up_and_what_came_is_kept(
    site, source, model, monkeypatch
):
    site.gate = threading.Event()
    for module in ("hf", "modelscope"):
        monkeypatch.setattr(f"jumar.runtime.weights.{module}.TIMEOUT_S", 0.2)
    with pytest.raises(WeightsUnavailable, match="broke off") as caught:
        ensure(model(source))
    assert "ReadTimeout" in str(caught.value.cause)


def test_the_token_is_sent_to_the_hub(site, source, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", "hf_secret")
    ensure(model(source))
    assert {r.headers.get("authorization") for r in site.requests} == {"Bearer hf_secret"}


def test_files_may_lie_on_another_host_which_never_sees_the_token(site, source, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", "hf_secret")
    with running(type(site)(files=site.files)) as store:
        site.moved = store.url.replace("127.0.0.1", "localhost")
        path = ensure(model(source))
    assert (path / "unet/model.bin").read_bytes() == BIG
    assert len(store.requests) == len(FILES)
    assert "hf_secret" not in str(store.requests)
    assert "hf_secret" in str(site.requests)


def test_a_token_never_stands_in_an_error(site, source, model, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    monkeypatch.setenv("MODELSCOPE_API_TOKEN", "hf_secret")
    site.refuses = (401, {})
    with pytest.raises(WeightsUnavailable) as caught:
        ensure(model(source))
    assert "hf_secret" not in str(caught.value.detail())


def test_cancelling_leaves_a_part_that_the_next_call_resumes(site, source, model, monkeypatch):
    monkeypatch.setattr("jumar.runtime.weights.base.TELL_S", 0)
    stop = threading.Event()

    def stop_inside_the_big_file(progress: Progress) -> None:
        if "model.bin" in progress.what and progress.done_bytes > 1 << 20:
            stop.set()

    with pytest.raises(Cancelled):
        ensure(model(source), progress=stop_inside_the_big_file, cancel=stop)
    row = where(model(source))[0]
    assert not row.complete
    assert 1 << 20 < row.size < len(BIG)

    site.requests.clear()
    assert (ensure(model(source)) / "unet/model.bin").read_bytes() == BIG
    config = len(FILES["config.json"])
    assert [r.range for r in site.fetched("unet/model.bin")] == [f"bytes={row.size - config}-"]


def test_an_interrupt_leaves_nothing_that_could_be_loaded(site, source, model):
    def interrupt(progress: Progress) -> None:
        if "model.bin" in progress.what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure(model(source), progress=interrupt)
    assert not where(model(source))[0].complete
    assert (ensure(model(source)) / "unet/model.bin").read_bytes() == BIG


def test_progress_counts_the_bytes_of_all_files_up_to_their_sum(site, source, model):
    heard: list[Progress] = []
    ensure(model(source), progress=heard.append)
    loading = [p for p in heard if p.what.startswith("downloading")]
    assert {p.total_bytes for p in loading} == {len(BIG) + 2}
    counted = [p.done_bytes for p in loading]
    assert counted == sorted(counted)
    assert counted[-1] == len(BIG) + 2


@pytest.mark.parametrize("switch", ["JUMAR_OFFLINE", "HF_HUB_OFFLINE"])
def test_offline_says_what_is_missing_and_how_to_bring_it(hub, model, monkeypatch, switch):
    monkeypatch.setenv(switch, "1")
    with pytest.raises(WeightsUnavailable, match=rf"config\.json.*{switch}=1") as caught:
        ensure(model(SOURCES["hub"], files={"config.json": sha256(b"{}")}))
    assert "jumar models pull a-model" in str(caught.value.hint)
    assert not hub.requests


def test_offline_uses_what_was_pulled_before(site, source, model, monkeypatch):
    path = ensure(model(source))
    monkeypatch.setenv("JUMAR_OFFLINE", "1")
    assert ensure(model(source)) == path


def test_offline_uses_a_snapshot_of_the_hubs_own_cache(hub, model):
    snapshot = hf_snapshot(FILES)
    found = ensure(model(f"hf://owner/model@{COMMIT}"), offline=True)
    assert found.resolve() == snapshot
    assert not hub.requests


def test_offline_names_what_a_snapshot_of_the_hubs_own_cache_lacks(hub, model):
    hf_snapshot({"config.json": b"{}"})
    wanted = model(
        f"hf://owner/model@{COMMIT}",
        files={"config.json": sha256(b"{}"), "unet/model.bin": sha256(BIG)},
    )
    with pytest.raises(WeightsUnavailable, match=r"incomplete.*unet/model\.bin"):
        ensure(wanted, offline=True)


def test_offline_names_what_a_snapshot_lacks_where_only_the_hubs_client_knows_the_list(hub, model):
    library = pytest.importorskip("huggingface_hub", minversion="1.20")
    hub.files.update(FILES)
    snapshot = Path(library.snapshot_download("owner/model", endpoint=hub.url))
    (snapshot / "unet/model.bin").unlink()
    with pytest.raises(WeightsUnavailable, match=r"only here in part.*unet/model\.bin"):
        ensure(model("hf://owner/model"), offline=True)


def test_a_pinned_snapshot_in_the_hubs_own_cache_is_not_fetched_again(hub, model):
    snapshot = hf_snapshot(FILES)
    digests = {name: sha256(data) for name, data in FILES.items()}
    assert ensure(model(f"hf://owner/model@{COMMIT}", files=digests)).resolve() == snapshot
    assert not hub.requests


def test_a_file_that_the_revision_lost_between_two_tries_is_not_kept(site, source, model):
    site.files["a-first.bin"] = b"gone tomorrow"
    site.cut["unet/model.bin"], site.down_after_cut = 1 << 20, True
    with pytest.raises(WeightsUnavailable):
        ensure(model(source))
    assert site.fetched("a-first.bin")

    site.mend()
    del site.files["a-first.bin"]
    path = ensure(model(source))
    assert {p.relative_to(path).as_posix() for p in files(path)} == set(FILES)


def test_a_name_that_only_the_hubs_client_refuses_is_a_wrong_name(hub, model):
    with pytest.raises(InvalidValue, match="names no repository"):
        ensure(model("hf://owner/two..dots"))


@pytest.mark.parametrize("locator", ["model", "owner/model@", "owner/model/more", "../x/y", ""])
@pytest.mark.parametrize("scheme", ["hf://", "modelscope://"])
def test_a_repository_of_another_form_is_refused(scheme, locator, model):
    with pytest.raises(InvalidValue, match="does not name a repository"):
        ensure(model(scheme + locator))


def test_a_listing_that_leads_out_of_the_folder_is_refused(scope, model, tmp_path):
    scope.files["../../evil"] = b"x"
    with pytest.raises(WeightsUnavailable, match="leads out"):
        ensure(model(SOURCES["scope"]))
    assert not list(tmp_path.rglob("evil"))


def test_an_endpoint_that_is_no_modelscope_is_told_from_a_missing_repository(
    scope, model, monkeypatch
):
    monkeypatch.setattr(type(scope), "answer", lambda self, request: (login_page(), None))
    with pytest.raises(WeightsUnavailable, match="does not answer as ModelScope does"):
        ensure(model(SOURCES["scope"]))


def test_a_full_disk_is_told_with_the_switch_for_another_folder(site, source, model, monkeypatch):
    real = Path.open

    def full(self: Path, mode: str = "r", *args: object, **kwargs: object):  # type: ignore[no-untyped-def]
        if mode != "rb" and ("model.bin" in self.name or ".incomplete" in self.name):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(WeightsUnavailable, match="No space left") as caught:
        ensure(model(source))
    assert "JUMAR_CACHE" in str(caught.value.hint)
    monkeypatch.setattr(Path, "open", real)
    assert not where(model(source))[0].complete


def test_without_huggingface_hub_the_error_says_what_to_install(hub, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name, package=None: None)
    with pytest.raises(DependencyMissing, match="huggingface_hub") as caught:
        ensure(model(SOURCES["hub"]))
    assert "pip install" in str(caught.value.hint)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file())


def login_page() -> Answer:
    return Answer(200, b"<html>Please log in</html>", {"Content-Type": "text/html"})


def hf_snapshot(content: dict[str, bytes]) -> Path:
    """A snapshot as the hub's own client keeps it."""
    from huggingface_hub import constants

    snapshot = Path(constants.HF_HUB_CACHE) / "models--owner--model" / "snapshots" / COMMIT
    for name, data in content.items():
        (snapshot / name).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / name).write_bytes(data)
    return snapshot.resolve()
