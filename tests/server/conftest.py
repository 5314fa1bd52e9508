"""A machine on which the toy distribution is installed, and a server on it for each module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import toy
from tests.support.serving import Running, serving

from jumar.catalog.index import catalog
from jumar.runtime import families


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for `sys.path` in which the toy is installed."""
    folder: Path = tmp_path_factory.mktemp("site")
    toy.install(folder)
    return folder


@pytest.fixture(scope="module", autouse=True)
def toys(site: Path) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        catalog.cache_clear()
        families._families.cache_clear()
        yield
    catalog.cache_clear()
    families._families.cache_clear()


@pytest.fixture(scope="module")
def server(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Serves every model on demand; the toy is loaded."""
    with serving(tmp_path_factory.mktemp("data"), "toy") as running:
        yield running.ready()
