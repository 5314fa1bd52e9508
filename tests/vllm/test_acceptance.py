"""The acceptance table holds, row by row, on a real `vllm serve`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.vllm.acceptance import PICTURES, TEXT, Pictures, Text, smollm2
from tests.vllm.serving import serve

pytest.importorskip("vllm")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Text]:
    folder = smollm2()
    with serve(folder, tmp_path_factory.mktemp("text") / "log") as server:
        yield Text(server, folder)


@pytest.fixture(scope="module")
def pictures(
    tiny: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pictures]:
    folder = tiny("qwen2_vl")
    with serve(folder, tmp_path_factory.mktemp("pictures") / "log") as server:
        yield Pictures(server, folder)


@pytest.mark.long
@pytest.mark.models
@pytest.mark.parametrize("name", TEXT)
def test_smollm2_answers_as_it_does_in_transformers(name: str, text: Text) -> None:
    assert TEXT[name](text)


@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_a_tiny_vision_model_sees_what_it_sees_in_transformers(
    name: str, pictures: Pictures
) -> None:
    assert PICTURES[name](pictures)
