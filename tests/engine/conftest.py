"""A machine on which the toy distribution is installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import toy
from tests.support.jobs import Asked
from tests.support.redis_server import RedisServer, redis_server

from jumar.catalog.index import catalog
from jumar.runtime import families


@pytest.fixture(autouse=True)
def toy_model(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("site")
    toy.install(folder)
    monkeypatch.syspath_prepend(str(folder))
    toy.Toy.loaded = toy.Toy.open = 0
    catalog.cache_clear()
    families._families.cache_clear()
    yield
    catalog.cache_clear()
    families._families.cache_clear()


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with redis_server(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def asked() -> Asked:
    return Asked()
