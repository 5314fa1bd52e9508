"""A catalog made of manifests that a test writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from jumar.catalog.build import build
from jumar.catalog.index import HERE, Catalog

PAINTER = """
    id: painter
    aliases: [brush]
    summary: Draws.
    family: diffusion
    tier: core
    licence: MIT
    tasks:
      text2image: {options: {pipeline: Painter}}
      image2image:
        inputs: {image: {required: true}}
        config: {strength: {default: 0.5}}
        options: {pipeline: Repainter}
    inputs:
      prompt: {required: true, maximum: 100}
      negative_prompt:
    config:
      num_inference_steps: {default: 4, maximum: 8}
      guidance_scale: {default: 3.0}
      width: {default: 64, maximum: 128}
    presets:
      fast: {guidance_scale: 1.5}
    adapters: [lora]
    """

Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes manifests (id first) into a folder like the package's own, and returns it."""

    def write(*manifests: str) -> Path:
        place = tmp_path / "src" / "jumar" / "catalog"
        (place / "manifests").mkdir(parents=True, exist_ok=True)
        for name in ("vocabulary.yaml", "presets.yaml"):
            shutil.copy2(HERE / name, place / name)
        for text in map(dedent, manifests):
            model = text.strip().splitlines()[0].removeprefix("id: ")
            (place / "manifests" / f"{model}.yaml").write_text(text, encoding="utf-8")
        return place

    return write


@pytest.fixture
def painter(folder: Folder) -> Catalog:
    """A catalog with one model that draws."""
    return Catalog(build(folder(PAINTER)))
