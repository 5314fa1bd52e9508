"""Tiny random pipelines on disk, each built once per test session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "support"))


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """The folder of a tiny pipeline, by its name in `tiny_pipelines.BUILDERS`."""
    pytest.importorskip("diffusers")
    import torch
    from tiny_pipelines import build

    home, threads = tmp_path_factory.mktemp("tiny"), torch.get_num_threads()
    torch.set_num_threads(1)  # tiny matrices: threads would only wait for each other

    def folder(name: str) -> Path:
        if not (home / name).exists():
            build(name).save_pretrained(home / name)
        return home / name

    yield folder
    torch.set_num_threads(threads)
