"""Tiny random pipelines and the embedded models, each made ready once per test session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))

if TYPE_CHECKING:
    from embedded import Embedded


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a tiny pipeline, by its name in `tiny_pipelines.BUILDERS`."""
    pytest.importorskip("diffusers")
    from tiny_pipelines import build

    home = tmp_path_factory.mktemp("tiny")

    def folder(name: str) -> Path:
        if not (home / name).exists():
            build(name).save_pretrained(home / name)
        return home / name

    return folder


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices: threads would only wait for each other."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def few_threads() -> Iterator[None]:
    """Small models gain little from threads, and lose much where others want the cores too."""
    torch = pytest.importorskip("torch")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def voice() -> Embedded:
    """The embedded voice."""
    return _embedded("hibari", "hibari")


@pytest.fixture(scope="session")
def ears(few_threads: None) -> Embedded:
    """The embedded Whisper."""
    return _embedded("whisper-tiny.en", "transformers")


@pytest.fixture(scope="session")
def minilm(few_threads: None) -> Embedded:
    """The embedded encoder."""
    return _embedded("all-minilm-l6-v2", "transformers")


def _embedded(name: str, needs: str) -> Embedded:
    pytest.importorskip(needs)
    from embedded import Embedded

    return Embedded(name)
