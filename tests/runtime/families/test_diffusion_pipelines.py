"""Any pipeline class of diffusers is a manifest: what comes out is what diffusers makes of it.

The reference is diffusers itself, called by hand: pictures must be equal to the last bit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the runtime extra")

import diffusers
import numpy as np
import tiny_manifests
import torch
from PIL import Image
from studio import Studio, manifest_of

from jumar.contracts.errors import InvalidRequest
from jumar.runtime.families import picture, video
from jumar.runtime.families.diffusion.keys import call_arguments

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[[str], Path]

CASES = [
    ("sd15", "text2image", {"guidance_scale": 4.0, "negative_prompt": "a dog"}),
    ("sd15", "image2image", {"guidance_scale": 4.0, "strength": 0.7}),
    ("sd15", "inpaint", {"guidance_scale": 4.0, "strength": 1.0}),
    ("sdxl", "text2image", {"guidance_scale": 4.0, "negative_prompt": "a dog"}),
    ("sdxl", "image2image", {"guidance_scale": 4.0, "strength": 0.7}),
    ("sdxl", "inpaint", {"guidance_scale": 4.0, "strength": 1.0}),
    ("sd3", "text2image", {"guidance_scale": 4.0}),
    ("flux", "text2image", {"guidance_scale": 4.0, "max_sequence_length": 48}),
    ("pixart", "text2image", {"guidance_scale": 4.0}),
    ("wan_t2v", "text2video", {"guidance_scale": 4.0, "num_frames": 9}),
    ("wan_i2v", "image2video", {"guidance_scale": 4.0, "num_frames": 9}),
    ("svd", "image2video", {"num_frames": 4, "fps": 7}),
]
FIXED = {
    "pixart": {
        "use_resolution_binning": False,
        "clean_caption": False,
        "max_sequence_length": 16,
    },
    "wan_t2v": {"max_sequence_length": 16},
    "wan_i2v": {"max_sequence_length": 16},
    "svd": {"decode_chunk_size": 2},
}


def manifest_named(name: str) -> Any:
    return manifest_of(getattr(tiny_manifests, name.upper()))


@pytest.fixture
def pictures(tmp_path: Path) -> dict[str, Path]:
    """A gradient and a mask whose right half is white, 32 by 32."""
    ramp = np.linspace(0, 255, 32 * 32 * 3).reshape(32, 32, 3).astype(np.uint8)
    half = np.zeros((32, 32), np.uint8)
    half[:, 16:] = 255
    paths = {"image": tmp_path / "image.png", "mask": tmp_path / "mask.png"}
    Image.fromarray(ramp).save(paths["image"])
    Image.fromarray(half).save(paths["mask"])
    return paths


def by_hand(
    folder: Path, cls: str, name: str, given: dict[str, Any], files: dict[str, Path]
) -> Any:
    """The pipeline called as its documentation says, seed 5; frames or pictures as numpy."""
    pipeline = getattr(diffusers, cls).from_pretrained(folder, torch_dtype=torch.float32)
    pipeline.set_progress_bar_config(disable=True)
    arguments = {**given, **FIXED.get(name, {}), "generator": torch.manual_seed(5)}
    accepted = inspect.signature(pipeline.__call__).parameters
    if "prompt" in accepted:
        arguments["prompt"] = "a red cat"
    if "image" in accepted:
        arguments["image"] = Image.open(files["image"])
    if "mask_image" in accepted:
        arguments["mask_image"] = Image.open(files["mask"])
    if "height" in accepted:
        arguments |= {"height": 32, "width": 32}
    steps = 2 if name == "svd" else 3
    result = pipeline(num_inference_steps=steps, output_type="np", **arguments)
    return (getattr(result, "frames", None) if hasattr(result, "frames") else result.images)[0]


@pytest.mark.parametrize(("name", "task", "given"), CASES)
def test_a_manifest_is_enough_for_any_pipeline_and_draws_what_diffusers_draws(
    name: str, task: str, given: dict[str, Any], tiny: Tiny, pictures: dict[str, Path]
) -> None:
    manifest = manifest_named(name)
    spec = manifest.tasks[task]
    studio = Studio(manifest, tiny(name), task=task)
    inputs = {
        key: str(pictures[key]) if key in pictures else given.get(key, "a red cat")
        for key, param in spec.inputs.items()
        if param.required or key in given
    }
    config = {key: value for key, value in given.items() if key in spec.config}

    shot = studio.draw(task, inputs, {**config, "seed": 5})

    expected = by_hand(tiny(name), spec.options["pipeline"], name, given, pictures)
    pixels = (np.asarray(expected) * 255).round().astype(np.uint8)
    if task.endswith("video"):
        assert shot.bytes == _written(video.draft(pixels, spec.config["fps"].default))
    else:
        assert shot.bytes == _written(picture.draft(Image.fromarray(pixels)))
    assert shot.bytes == studio.draw(task, inputs, {**config, "seed": 5}).bytes
    assert shot.bytes != studio.draw(task, inputs, {**config, "seed": 6}).bytes


def _written(draft: Any) -> bytes:
    import io

    file = io.BytesIO()
    draft.write(file)
    return file.getvalue()


@pytest.mark.parametrize("name", ["sd15", "sdxl", "sd3", "flux", "pixart", "wan_t2v", "svd"])
def test_every_key_of_a_manifest_is_an_argument_of_its_pipeline(name: str) -> None:
    for spec in manifest_named(name).tasks.values():
        call = getattr(diffusers, spec.options["pipeline"]).__call__
        assert set(call_arguments(spec).values()) <= set(inspect.signature(call).parameters)


def test_a_key_that_the_pipeline_would_drop_without_a_word_is_refused(
    tiny: Tiny, pictures: dict[str, Path]
) -> None:
    # This call ends in **kwargs: width would vanish in it.
    text = tiny_manifests.SDXL.replace("call: {width: null, height: null}", "")
    studio = Studio(manifest_of(text), tiny("sdxl"))
    inputs = {"prompt": "a cat", "image": str(pictures["image"])}
    with pytest.raises(InvalidRequest, match="takes no height, width"):
        studio.draw("image2image", inputs)


def test_all_tasks_of_a_model_share_one_copy_of_the_weights(
    tiny: Tiny, pictures: dict[str, Path]
) -> None:
    studio = Studio(manifest_named("sdxl"), tiny("sdxl"))
    inputs = {"prompt": "a cat", "image": str(pictures["image"])}
    studio.draw("image2image", inputs)
    studio.draw("inpaint", {**inputs, "mask": str(pictures["mask"])})
    first, *others = studio.model._pipelines.values()
    assert [type(other).__name__ for other in others] == [
        "StableDiffusionXLImg2ImgPipeline",
        "StableDiffusionXLInpaintPipeline",
    ]
    for other in others:
        assert other.unet is first.unet
        assert other.vae is first.vae
        assert other.text_encoder_2 is first.text_encoder_2


def test_a_task_answers_the_same_whichever_task_was_loaded_first(
    tiny: Tiny, pictures: dict[str, Path]
) -> None:
    manifest = manifest_named("sd15")
    inputs = {"prompt": "a cat", "image": str(pictures["image"])}
    warm = Studio(manifest, tiny("sd15"))
    warm.draw("text2image", {"prompt": "a dog"})
    cold = Studio(manifest, tiny("sd15"), task="image2image")
    seed = {"seed": 1}
    assert (
        warm.draw("image2image", inputs, seed).bytes == cold.draw("image2image", inputs, seed).bytes
    )


def test_a_component_may_keep_a_dtype_of_its_own(tiny: Tiny) -> None:
    text = tiny_manifests.WAN_T2V.replace(
        "options: {", "options: {components: {vae: {dtype: fp32}}, "
    )
    studio = Studio(manifest_of(text), tiny("wan_t2v"), {"dtype": "bf16"})
    assert studio.pipeline.vae.dtype == torch.float32
    assert studio.pipeline.transformer.dtype == torch.bfloat16


def test_a_component_may_come_from_weights_of_its_own(tiny: Tiny, tmp_path: Path) -> None:
    other = diffusers.AutoencoderKLWan.from_pretrained(tiny("wan_t2v"), subfolder="vae")
    with torch.no_grad():
        other.post_quant_conv.bias.add_(1.0)
    other.save_pretrained(tmp_path / "other")
    text = tiny_manifests.WAN_T2V.replace(
        "options: {",
        "options: {components: {vae: "
        "{class: AutoencoderKLWan, weights: model, subfolder: other}}, ",
    )
    for part in tiny("wan_t2v").iterdir():
        (tmp_path / part.name).symlink_to(part)
    studio = Studio(manifest_of(text), tmp_path)
    assert torch.equal(studio.pipeline.vae.post_quant_conv.bias, other.post_quant_conv.bias)
