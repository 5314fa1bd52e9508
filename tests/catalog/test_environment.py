"""Defaults that the operator keeps in environment variables, and keys that are his alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jumar.catalog.build import build
from jumar.catalog.index import Catalog
from jumar.catalog.resolution import ResolvedRequest, examine, resolve, resolve_load
from jumar.contracts import GenerateRequest
from jumar.contracts.errors import InvalidValue

from .conftest import PAINTER, Folder

NAMED = PAINTER.replace("maximum: 128}", "maximum: 128, env: [PAINTER_WIDTH, PAINTER_SIZE]}")
PRESET = NAMED.replace("fast: {", "fast: {width: 32, ")
LOADED = NAMED.replace("    presets:", "      dtype: {env: [PAINTER_DTYPE]}\n    presets:")

Draw = Callable[..., ResolvedRequest]


@pytest.fixture
def known(folder: Folder) -> Catalog:
    return Catalog(build(folder(PRESET)))


@pytest.fixture
def draw(known: Catalog) -> Draw:
    return lambda **config: resolve(request(**config), known)


def request(**config: Any) -> GenerateRequest:
    return GenerateRequest(
        task="text2image", model="painter", inputs={"prompt": "a seven"}, config=config
    )


def test_a_variable_is_a_default_and_told_as_the_origin(
    draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert draw().config["width"] == 64
    monkeypatch.setenv("OMNIRT_PAINTER_SIZE", "96")
    resolved = draw()
    assert resolved.config["width"] == 96
    assert resolved.origins["width"] == "environment OMNIRT_PAINTER_SIZE"


def test_the_first_name_counts_and_jumars_before_omnirts(
    draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, width in (("OMNIRT_PAINTER_WIDTH", "96"), ("JUMAR_PAINTER_SIZE", "80")):
        monkeypatch.setenv(name, width)
    assert draw().config["width"] == 96
    monkeypatch.setenv("JUMAR_PAINTER_WIDTH", "88")
    assert draw().config["width"] == 88
    monkeypatch.setenv("JUMAR_PAINTER_WIDTH", "")
    assert draw().config["width"] == 96, "set to nothing is not set"


def test_a_preset_and_a_caller_win_over_it(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUMAR_PAINTER_WIDTH", "96")
    assert draw(preset="fast").config["width"] == 32
    assert draw(width=40).origins["width"] == "caller"


def test_a_value_that_cannot_be_is_refused_by_the_variables_name(
    known: Catalog, draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_PAINTER_WIDTH", "wide")
    _, wrong = examine(request(), known)
    assert [error.message for error in wrong] == [
        "JUMAR_PAINTER_WIDTH: config.width must be a whole number, not 'wide'."
    ]
    assert draw(width=64).config["width"] == 64, "nobody asks for it then"
    with pytest.raises(InvalidValue, match="JUMAR_PAINTER_WIDTH"):
        draw()


def test_loading_reads_it_too(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Catalog(build(folder(LOADED)))
    monkeypatch.setenv("JUMAR_PAINTER_DTYPE", "bf16")
    loaded = resolve_load(known.get("painter"), "text2image", "auto", {}, known)
    assert loaded.load_config["dtype"] == "bf16"
    assert loaded.origins["dtype"] == "environment JUMAR_PAINTER_DTYPE"


def test_operator_keys_are_named_where_a_caller_set_them(draw: Draw) -> None:
    assert draw(width=40).operator_keys == []
    assert draw(output_dir="/srv", model_path="/weights", width=40).operator_keys == [
        "output_dir",
        "model_path",
    ]
