"""A server with an actor beside it: a model of every task, whose answers are plain to see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from tests.support import actor
from tests.support.serving import Running, serving

from jumar.catalog.index import catalog
from jumar.runtime import families


@pytest.fixture(scope="module", autouse=True)
def actors(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The actor's distribution is installed beside the toy's."""
    site: Path = tmp_path_factory.mktemp("actors")
    actor.install(site)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(site))
        catalog.cache_clear()
        families._families.cache_clear()
        yield


@pytest.fixture(scope="module")
def server(actors: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("data"), "actor") as running:
        yield running.ready("actor")


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as one:
        yield one
