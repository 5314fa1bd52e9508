"""One run of a pipeline: seeds, steps, stopping, what is measured, what is never believed."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the runtime extra")

import numpy as np
import tiny_manifests
import torch
from PIL import Image
from studio import Shot, Studio, manifest_of

from jumar.contracts.errors import Cancelled, DeadlineExceeded, InvalidModelOutput
from jumar.contracts.results import StageEventRecord

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[[str], Path]
CAT = {"prompt": "a red cat"}


@pytest.fixture(scope="module")
def studio(tiny: Tiny) -> Studio:
    """One tiny SDXL for the tests that only ask it things."""
    return Studio(manifest_of(tiny_manifests.SDXL), tiny("sdxl"))


@pytest.fixture
def own_studio(tiny: Tiny) -> Studio:
    """One for a test that breaks it."""
    return Studio(manifest_of(tiny_manifests.SD15), tiny("sd15"))


def pixels(file: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(file))).astype(int)


class Stopper:
    """Sets an event at the n-th step."""

    def __init__(self, at: int) -> None:
        self.event = threading.Event()
        self.seen = 0
        self._at = at

    def __call__(self, record: StageEventRecord) -> None:
        if record.event == "step":
            self.seen = record.data["done"]
            if self.seen == self._at:
                self.event.set()


def test_a_seed_that_nobody_gave_is_drawn_and_recorded(studio: Studio) -> None:
    first, second = studio.draw("text2image", CAT), studio.draw("text2image", CAT)
    assert first.run.config["seed"] != second.run.config["seed"]
    again = studio.draw("text2image", CAT, {"seed": first.run.config["seed"]})
    assert again.bytes == first.bytes


def test_picture_i_of_a_batch_is_the_single_picture_of_seed_plus_i(studio: Studio) -> None:
    batch = studio.draw("text2image", CAT, {"seed": 7, "num_images_per_prompt": 3})
    assert len(batch.drafts) == 3
    for i, file in enumerate(batch.files):
        single = studio.draw("text2image", CAT, {"seed": 7 + i})
        assert abs(pixels(file) - pixels(single.bytes)).max() <= 2
    assert abs(pixels(batch.files[0]) - pixels(batch.files[1])).max() > 2


def test_every_step_is_told(studio: Studio) -> None:
    run = studio.draw("text2image", CAT, {"num_inference_steps": 4}).run
    steps = [event.data for event in run.events if event.event == "step"]
    assert steps == [{"done": n, "total": 4} for n in (1, 2, 3, 4)]
    assert {event.stage for event in run.events if event.event == "step"} == {"denoise_loop"}


def test_a_strength_below_one_leaves_steps_out_and_the_total_says_so(
    studio: Studio, tmp_path: Path
) -> None:
    Image.new("RGB", (32, 32), "red").save(tmp_path / "red.png")
    config = {"num_inference_steps": 10, "strength": 0.5}
    inputs = {**CAT, "image": str(tmp_path / "red.png")}
    run = studio.draw("image2image", inputs, config).run
    steps = [event.data for event in run.events if event.event == "step"]
    assert steps[-1] == {"done": 5, "total": 5}


def test_a_pipeline_that_calls_nobody_back_is_counted_by_its_progress_bar(tiny: Tiny) -> None:
    pixart = Studio(manifest_of(tiny_manifests.PIXART), tiny("pixart"))
    shot = pixart.draw("text2image", CAT)
    assert [event.data["done"] for event in shot.run.events if event.event == "step"] == [1, 2, 3]
    assert shot.run.warnings == []
    stopper = Stopper(at=2)
    with pytest.raises(Cancelled):
        pixart.draw("text2image", CAT, listener=stopper, cancel=stopper.event)
    assert stopper.seen == 2


def test_a_run_stops_within_the_loop_and_leaves_a_pipeline_that_works(studio: Studio) -> None:
    before = studio.draw("text2image", CAT, {"seed": 1}).bytes
    stopper = Stopper(at=2)
    with pytest.raises(Cancelled, match="denoise_loop"):
        studio.draw(
            "text2image",
            CAT,
            {"seed": 1, "num_inference_steps": 9, "scheduler": "ddim"},
            listener=stopper,
            cancel=stopper.event,
        )
    assert stopper.seen == 2
    assert studio.draw("text2image", CAT, {"seed": 1}).bytes == before


def test_a_deadline_that_has_passed_stops_the_run(studio: Studio) -> None:
    with pytest.raises(DeadlineExceeded):
        studio.draw("text2image", CAT, deadline=0.0)


def test_stages_are_measured_and_lie_within_the_call(studio: Studio) -> None:
    timings = studio.draw("text2image", CAT).run.timings
    assert set(timings) == {"prepare_ms", "denoise_loop_ms", "decode_ms", "pipeline_call_ms"}
    assert min(timings.values()) > 0
    assert timings["denoise_loop_ms"] + timings["decode_ms"] <= timings["pipeline_call_ms"]


def test_every_module_that_computes_is_in_the_timeline_of_warm_runs_too(studio: Studio) -> None:
    for _ in range(2):
        run = studio.draw("text2image", CAT).run
        modules = {entry.module for entry in run.timeline}
        assert modules >= {"vae.decoder", "text_encoder", "text_encoder_2", "unet"}
        for entry in run.timeline:
            assert [attempt.level for attempt in entry.attempts] == [
                "compile",
                "kernel_override",
                "eager",
            ]


def test_the_final_latents_are_described(studio: Studio) -> None:
    seen: dict[str, float] = {}

    def keep(module: Any, inputs: Any) -> None:
        values = inputs[0] * studio.pipeline.vae.config.scaling_factor
        seen.update(mean=float(values.mean()), max=float(values.max()))

    hook = studio.pipeline.vae.post_quant_conv.register_forward_pre_hook(keep)
    try:
        stats = studio.draw("text2image", CAT).run.latent_stats
    finally:
        hook.remove()
    assert stats is not None
    assert set(stats) == {"mean", "std", "min", "max"}
    assert stats["mean"] == pytest.approx(seen["mean"], rel=1e-4)
    assert stats["max"] == pytest.approx(seen["max"], rel=1e-4)


def test_latents_that_are_not_finite_end_the_run_at_their_step(own_studio: Studio) -> None:
    calls = iter(range(100))

    def poison(module: Any, inputs: Any, output: Any) -> Any:
        return tuple(part * float("nan") for part in output) if next(calls) == 1 else output

    own_studio.pipeline.unet.register_forward_hook(poison)
    with pytest.raises(InvalidModelOutput, match=r"after step 2 \(unet, torch.float32\)"):
        own_studio.draw("text2image", CAT, {"num_inference_steps": 8})


def test_a_vae_that_overflows_is_named(own_studio: Studio) -> None:
    with torch.no_grad():
        own_studio.pipeline.vae.decoder.conv_out.bias.fill_(float("nan"))
    with pytest.raises(InvalidModelOutput, match="VAE overflowed"):
        own_studio.draw("text2image", CAT)


def test_a_picture_that_is_black_all_over_is_no_answer(own_studio: Studio) -> None:
    with torch.no_grad():
        own_studio.pipeline.vae.decoder.conv_out.bias.fill_(-1e4)
    with pytest.raises(InvalidModelOutput, match="black all over"):
        own_studio.draw("text2image", CAT)


@pytest.mark.parametrize("key", ["prompt", "negative_prompt"])
def test_words_that_the_tokenizer_cuts_off_are_told(studio: Studio, key: str) -> None:
    long = "a red cat " * 30 + "dog"
    run = studio.draw("text2image", {**CAT, key: long}).run
    told = [text for text in run.warnings if key in text]
    assert ["tokenizer;" in told[0], "tokenizer_2;" in told[1]] == [True, True]
    assert told[0].endswith("a red cat dog'")
    # What is told is exactly what makes no difference.
    kept = " ".join(long.split()[:75])
    seed = {"seed": 1}
    whole = studio.draw("text2image", {**CAT, key: long}, seed)
    assert whole.bytes == studio.draw("text2image", {**CAT, key: kept}, seed).bytes
    assert len(long.split()) - 75 == len(told[0].split("'")[1].split())


def test_a_negative_prompt_counts_also_after_a_run_that_had_no_use_for_one(
    own_studio: Studio,
) -> None:
    guided = {"guidance_scale": 7.5, "seed": 1}
    against = {**CAT, "negative_prompt": "a dog"}
    first = own_studio.draw("text2image", against, guided)
    own_studio.draw("text2image", CAT, {"guidance_scale": 1.0, "seed": 1})
    again = own_studio.draw("text2image", against, guided)
    assert again.bytes == first.bytes
    assert again.bytes != own_studio.draw("text2image", CAT, guided).bytes


def test_a_prompt_that_fits_is_not_told_of(studio: Studio) -> None:
    assert studio.draw("text2image", {"prompt": " ".join(["cat"] * 75)}).run.warnings == []


def test_the_limit_of_another_tokenizer_is_the_sequence_length(tiny: Tiny) -> None:
    flux = Studio(manifest_of(tiny_manifests.FLUX), tiny("flux"))
    run = flux.draw("text2image", {"prompt": "cat " * 40}, {"max_sequence_length": 32}).run
    (told,) = run.warnings
    # 31 words and the end token fit.
    assert told == (
        f"The prompt is too long for tokenizer_2; it does not see: {' '.join(['cat'] * 9)!r}"
    )


@pytest.mark.parametrize("prompt", ["红色的七", "🐱🔥", "é\u0301 ا", "\t\n", "cat " * 5000])
def test_any_text_is_a_prompt(studio: Studio, prompt: str) -> None:
    shot = studio.draw("text2image", {**CAT, "negative_prompt": prompt}, {"num_inference_steps": 1})
    assert len(shot.drafts) == 1


def test_nothing_is_printed(studio: Studio, capfd: pytest.CaptureFixture[str]) -> None:
    studio.draw("text2image", {"prompt": "a red cat " * 30})
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.mark.parametrize(
    ("name", "suffix", "magic"),
    [("png", ".png", b"\x89PNG"), ("jpeg", ".jpg", b"\xff\xd8\xff"), ("webp", ".webp", b"RIFF")],
)
def test_a_picture_is_written_in_the_format_asked_for(
    studio: Studio, name: str, suffix: str, magic: bytes
) -> None:
    shot = studio.draw("text2image", CAT, {"response_format": name})
    (draft,) = shot.drafts
    assert draft.suffix == suffix
    assert (draft.width, draft.height) == (32, 32)
    assert shot.bytes.startswith(magic)


class TestPicturesIn:
    """What an image and a mask do."""

    @pytest.fixture
    def photo(self, tmp_path: Path) -> str:
        path = tmp_path / "photo.png"
        ramp = np.linspace(0, 255, 48 * 64 * 3).reshape(48, 64, 3).astype(np.uint8)
        Image.fromarray(ramp).save(path)
        return str(path)

    @pytest.fixture
    def half(self, tmp_path: Path) -> str:
        path = tmp_path / "half.png"
        mask = np.zeros((64, 64), np.uint8)
        mask[:, 32:] = 255
        Image.fromarray(mask).save(path)
        return str(path)

    def draw(self, studio: Studio, task: str, config: dict[str, Any], **files: str) -> Shot:
        return studio.draw(task, {**CAT, **files}, {"seed": 1, **config})

    def test_an_image_is_brought_to_the_size_asked_for(self, studio: Studio, photo: str) -> None:
        shot = self.draw(studio, "image2image", {"width": 48, "height": 32}, image=photo)
        assert (shot.drafts[0].width, shot.drafts[0].height) == (48, 32)
        (note,) = shot.run.warnings
        assert note.startswith("The image was resized from 64x48 to 48x32, which changes its")

    def test_an_image_decides_the_size_where_nobody_asks_for_one(
        self, tiny: Tiny, photo: str
    ) -> None:
        text = tiny_manifests.SD15.replace("{default: 32}", "{}")
        shot = self.draw(Studio(manifest_of(text), tiny("sd15")), "image2image", {}, image=photo)
        assert (shot.drafts[0].width, shot.drafts[0].height) == (64, 48)
        assert (shot.run.config["width"], shot.run.config["height"]) == (64, 48)
        assert shot.run.warnings == []

    def test_the_white_part_of_a_mask_is_drawn_anew(
        self, studio: Studio, photo: str, half: str
    ) -> None:
        size = {"width": 64, "height": 64, "num_inference_steps": 4}
        one = pixels(self.draw(studio, "inpaint", {**size}, image=photo, mask=half).bytes)
        two = pixels(
            self.draw(studio, "inpaint", {**size, "seed": 2}, image=photo, mask=half).bytes
        )
        changed = abs(one - two).mean(axis=(0, 2))
        assert changed[:24].mean() < changed[40:].mean() / 3

    def test_a_mask_of_another_size_is_brought_to_that_of_the_image(
        self, studio: Studio, photo: str, half: str
    ) -> None:
        shot = self.draw(studio, "inpaint", {"width": 64, "height": 48}, image=photo, mask=half)
        (note,) = shot.run.warnings
        assert note.startswith("The mask was resized from 64x64 to 64x48")

    def test_a_mask_without_white_is_told_of(
        self, studio: Studio, photo: str, tmp_path: Path
    ) -> None:
        Image.new("L", (32, 32)).save(tmp_path / "black.png")
        shot = self.draw(studio, "inpaint", {}, image=photo, mask=str(tmp_path / "black.png"))
        assert "The mask has no white: nothing will be drawn anew." in shot.run.warnings
