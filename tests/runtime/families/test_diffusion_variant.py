"""A manifest may ask for a variant of the files; a copy with the plain ones only still loads."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("diffusers", reason="needs the runtime extra")

import tiny_manifests
from studio import Studio, manifest_of

pytestmark = pytest.mark.usefixtures("one_thread")

PLAIN = "options: {pipeline: StableDiffusionPipeline}"
VARIANT = "options: {pipeline: StableDiffusionPipeline, load: {variant: fp16}}"


def test_a_folder_with_the_variant_and_one_without_draw_the_same(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    assert PLAIN in tiny_manifests.SD15
    manifest = manifest_of(tiny_manifests.SD15.replace(PLAIN, VARIANT))
    named = Path(shutil.copytree(tiny("sd15"), tmp_path / "named"))
    for file in list(named.glob("*/*.safetensors")):
        file.rename(file.with_suffix(".fp16.safetensors"))
    drawn = [
        Studio(manifest, folder).draw("text2image", {"prompt": "a cat"}, {"seed": 1}).bytes
        for folder in (tiny("sd15"), named)
    ]
    assert drawn[0] == drawn[1]
