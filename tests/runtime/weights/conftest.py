from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.runtime.weights.local_servers import HubSite, IndexSite, ScopeSite, running

from jumar.catalog.manifest import Manifest, Weights

SWITCHES = [
    *("JUMAR_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN", "HF_ENDPOINT"),
    *("MODELSCOPE_ENDPOINT", "MODELSCOPE_DOMAIN", "MODELSCOPE_API_TOKEN"),
    *("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_NO_INDEX"),
]

Make = Callable[..., Manifest]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no setting of this machine's own."""
    for switch in SWITCHES:
        monkeypatch.delenv(switch, raising=False)
    root = tmp_path / "cache"
    monkeypatch.setenv("JUMAR_CACHE", str(root))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    return root


@pytest.fixture
def model() -> Make:
    """A manifest with one set of weights, called model."""

    def make(source: str | Path, **weights: object) -> Manifest:
        return Manifest(
            id="a-model",
            summary="A model.",
            family="none",
            tier="experimental",
            licence="Apache-2.0",
            tasks={},
            weights={"model": Weights(source=str(source), **weights)},  # type: ignore[arg-type]
        )

    return make


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubSite]:
    """A Hugging Face hub that HF_ENDPOINT names, and an empty cache of its client."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf"))
    with running(HubSite()) as site:
        monkeypatch.setenv("HF_ENDPOINT", site.url)
        yield site


@pytest.fixture
def scope(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScopeSite]:
    """A ModelScope that MODELSCOPE_ENDPOINT names."""
    with running(ScopeSite()) as site:
        monkeypatch.setenv("MODELSCOPE_ENDPOINT", site.url)
        yield site


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexSite]:
    """A package index that pip is told to use, and nothing else of this machine's pip settings."""
    with running(IndexSite()) as site:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"{site.url}/simple")
        monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
        yield site
