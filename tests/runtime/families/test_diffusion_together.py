"""Several callers in one call of a pipeline: each gets the picture that he would get alone.

References are the same requests one by one. The tolerance is that of golden pictures on a CPU: a
tenth of a level of 255 on average, in no block of 8 by 8 more than eight times that.
"""

from __future__ import annotations

import io
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

import jumar
from jumar import catalog
from jumar.contracts.errors import InvalidModelOutput, InvalidValue, RunFailed
from jumar.parity.answers import Answer, apart
from jumar.runtime.families.diffusion import Diffusion
from jumar.runtime.families.diffusion.together import PIPELINES, merged
from jumar.runtime.run import Run

pytestmark = pytest.mark.usefixtures("one_thread")

Tiny = Callable[[str], Path]
PROMPTS = ["a red cat", "a dog on a mat", "cat", "a mat and a red red dog"]
CASES = [
    ("sd15", "text2image"),
    ("sd15", "image2image"),
    ("sd15", "inpaint"),
    ("sdxl", "text2image"),
    ("sdxl", "image2image"),
    ("sdxl", "inpaint"),
    ("sd3", "text2image"),
    ("flux", "text2image"),
    ("pixart", "text2image"),
]


@pytest.fixture
def files(tmp_path: Path) -> list[dict[str, str]]:
    """An image and a mask for each prompt, none like another."""
    found = []
    for number in range(len(PROMPTS)):
        image, mask = tmp_path / f"image{number}.png", tmp_path / f"mask{number}.png"
        ramp = np.roll(np.linspace(0, 255, 32 * 32 * 3), 700 * number).reshape(32, 32, 3)
        Image.fromarray(ramp.astype(np.uint8)).save(image)
        white = np.zeros((32, 32), np.uint8)
        white[:, 8 * number :] = 255
        Image.fromarray(white).save(mask)
        found.append({"image": str(image), "mask": str(mask)})
    return found


def studio_of(name: str, tiny: Tiny, task: str | None = None) -> Studio:
    return Studio(manifest_of(getattr(tiny_manifests, name.upper())), tiny(name), task=task)


@pytest.fixture
def studio(tiny: Tiny) -> Studio:
    return studio_of("sdxl", tiny)


def runs_of(studio: Studio, task: str, files: Any = None, **config: Any) -> list[Run]:
    spec = studio.manifest.tasks[task]
    runs = []
    for number, prompt in enumerate(PROMPTS):
        inputs = {
            "prompt": prompt,
            "negative_prompt": f"no {prompt}",
            **(files or [{}] * 4)[number],
        }
        inputs = {key: value for key, value in inputs.items() if key in spec.inputs}
        runs.append(studio.run(task, inputs, {"seed": 10 + number, **config}))
    return runs


def pixels(file: bytes) -> np.ndarray[Any, Any]:
    return np.asarray(Image.open(io.BytesIO(file))).astype(float)


def far(one: bytes, other: bytes) -> Any:
    return apart(Answer("picture", pixels(one)), Answer("picture", pixels(other)), rounding="cpu")


def alone(studio: Studio, run: Run) -> Shot:
    again = Run(run.request, run.inputs)
    return Shot(studio.model.generate(again), again)


@pytest.mark.parametrize(("name", "task"), CASES)
def test_each_caller_gets_the_picture_that_he_would_get_alone(
    name: str, task: str, tiny: Tiny, files: Any
) -> None:
    studio = studio_of(name, tiny, task)
    runs = runs_of(studio, task, files)
    wanted = [alone(studio, run) for run in runs]
    together = studio.draw_together(runs)
    for shot, own in zip(together, wanted, strict=True):
        assert isinstance(shot, Shot), shot
        assert far(own.bytes, shot.bytes) is None
        assert abs(pixels(own.bytes) - pixels(shot.bytes)).max() <= 2
    # Not because all are alike: another caller's picture would be noticed.
    assert far(wanted[0].bytes, together[1].bytes) is not None  # type: ignore[union-attr]


def test_no_pipeline_is_trusted_that_is_not_tried_here() -> None:
    tried = {
        manifest_of(getattr(tiny_manifests, name.upper())).tasks[task].options["pipeline"]
        for name, task in CASES
    }
    assert tried == PIPELINES


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [
        *(("sdxl", name) for name in ("ddim", "dpm-solver-karras", "euler-ancestral", "unipc")),
        *(("sd3", name) for name in ("flow-match-dpm-solver", "flow-match-unipc")),
    ],
)
def test_so_it_is_with_every_kind_of_sampler(name: str, scheduler: str, tiny: Tiny) -> None:
    studio = studio_of(name, tiny)
    runs = runs_of(studio, "text2image", scheduler=scheduler, num_inference_steps=5)
    for shot, run in zip(studio.draw_together(runs), runs, strict=True):
        assert isinstance(shot, Shot), shot
        assert far(alone(studio, run).bytes, shot.bytes) is None


def test_callers_may_want_different_numbers_of_pictures(studio: Studio) -> None:
    counts = (1, 3, 1)
    runs = [
        studio.run("text2image", {"prompt": prompt}, {"seed": 7, "num_images_per_prompt": count})
        for prompt, count in zip(PROMPTS, counts, strict=False)
    ]
    together = studio.draw_together(runs)
    assert [len(shot.drafts) for shot in together if isinstance(shot, Shot)] == [1, 3, 1]
    for shot, run in zip(together, runs, strict=True):
        assert isinstance(shot, Shot)
        for file, own in zip(shot.files, alone(studio, run).files, strict=True):
            assert far(own, file) is None


@pytest.mark.models
def test_the_embedded_model_draws_the_same_digits() -> None:
    folder = Path(jumar.__file__).parent / "assets" / "sdxl-digits"
    studio = Studio(catalog.get("sdxl-digits"), folder)
    words = ["a red seven", "a blue two", "a green nine", "a yellow zero"]
    runs = [studio.run("text2image", {"prompt": w}, {"seed": n}) for n, w in enumerate(words)]
    for shot, run in zip(studio.draw_together(runs), runs, strict=True):
        assert isinstance(shot, Shot)
        assert far(alone(studio, run).bytes, shot.bytes) is None


def test_each_report_has_its_own_seed_latents_and_warnings(studio: Studio) -> None:
    runs = runs_of(studio, "text2image")
    long = studio.run("text2image", {"prompt": "cat " * 90, "negative_prompt": "a dog"})
    shots = studio.draw_together([*runs, long])
    assert [run.config["seed"] for run in runs] == [10, 11, 12, 13]
    assert isinstance(long.config["seed"], int)
    assert [bool(run.warnings) for run in (*runs, long)] == [False] * 4 + [True]
    for run in runs:
        own = alone(studio, run).run.latent_stats
        assert own is not None
        assert run.latent_stats == pytest.approx(own, rel=1e-3, abs=1e-4)
    assert len({run.latent_stats["mean"] for run in runs if run.latent_stats}) == 4
    assert all(isinstance(shot, Shot) for shot in shots)


class TestWhoMayTravelTogether:
    """Keys of requests: equal where one call can answer both."""

    def key(self, studio: Studio, task: str = "text2image", **changes: Any) -> Any:
        inputs = {"prompt": "a cat", **changes.pop("inputs", {})}
        resolved = studio.resolved(task, inputs, {"seed": 1, **changes})
        return Diffusion().company(resolved, Diffusion().prepare(resolved))

    def test_prompt_seed_format_and_number_of_pictures_are_ones_own(self, studio: Studio) -> None:
        one, count = self.key(studio)
        changed = {"inputs": {"prompt": "a dog"}, "seed": 2, "response_format": "webp"}
        other, three = self.key(studio, **changed, num_images_per_prompt=3, timeout=9.0)
        assert one is not None
        assert one == other
        assert (count, three) == (1, 3)

    @pytest.mark.parametrize(
        "change",
        [
            {"num_inference_steps": 4},
            {"guidance_scale": 4.5},
            {"width": 48},
            {"scheduler": "ddim"},
            {"inputs": {"negative_prompt": ""}},
        ],
        ids=str,
    )
    def test_all_else_of_the_call_is_not(self, studio: Studio, change: dict[str, Any]) -> None:
        assert self.key(studio)[0] != self.key(studio, **change)[0]

    def test_pictures_of_two_sizes_are_not(self, tiny: Tiny, tmp_path: Path) -> None:
        text = tiny_manifests.SD15.replace("{default: 32}", "{}")
        studio = Studio(manifest_of(text), tiny("sd15"))
        keys = []
        for side in (32, 48):
            Image.new("RGB", (side, side), "red").save(tmp_path / "red.png")
            inputs = {"image": str(tmp_path / "red.png")}
            keys.append(self.key(studio, "image2image", inputs=inputs)[0])
        assert None not in keys
        assert keys[0] != keys[1]

    def test_several_pictures_on_one_picture_are_drawn_alone(
        self, studio: Studio, files: Any
    ) -> None:
        given = {"inputs": {"image": files[0]["image"]}}
        assert self.key(studio, "image2image", **given)[0] is not None
        assert self.key(studio, "image2image", **given, num_images_per_prompt=2) == (None, 2)

    def test_a_pipeline_that_nobody_tried_draws_alone(self, tiny: Tiny) -> None:
        wan = studio_of("wan_t2v", tiny)
        resolved = wan.resolved("text2video", {"prompt": "a cat"}, {})
        assert Diffusion().company(resolved, resolved.inputs) == (None, 1)

    @pytest.mark.parametrize("load", [{"cache": "first_block_cache"}, {"quantization": "int8"}])
    def test_what_is_decided_for_all_rows_at_once_draws_alone(
        self, studio: Studio, load: dict[str, Any]
    ) -> None:
        assert self.key(studio, **load)[0] is None


class TestWhatGoesWrong:
    """One caller's mistake is his own; what is nobody's is told as such."""

    def test_a_request_that_fails_before_or_after_the_call_leaves_the_others_theirs(
        self, studio: Studio, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = runs_of(studio, "text2image")
        wanted = alone(studio, runs[2])
        from jumar.runtime.families.diffusion import model

        drafts_of, tell = model.drafts_of, studio.model._tell_of_cut_words

        def black(result: Any, run: Run) -> Any:
            if run is runs[1]:
                result.images[:] = 0
            return drafts_of(result, run)

        def refused(pipeline: Any, run: Run) -> None:
            if run is runs[0]:
                raise InvalidValue("Not this one.")
            tell(pipeline, run)

        monkeypatch.setattr(model, "drafts_of", black)
        monkeypatch.setattr(studio.model, "_tell_of_cut_words", refused)
        first, second, third, fourth = studio.draw_together(runs)
        assert isinstance(first, InvalidValue)
        assert isinstance(second, InvalidModelOutput)
        assert isinstance(third, Shot)
        assert isinstance(fourth, Shot)
        assert far(wanted.bytes, third.bytes) is None

    def test_a_model_whose_rows_see_each_other_is_found_out_and_not_asked_again(
        self, tiny: Tiny
    ) -> None:
        mixing = studio_of("sd15", tiny)
        called = []

        def mix(module: Any, inputs: Any, output: Any) -> Any:
            called.append(len(output[0]))
            return tuple(part.mean(dim=0, keepdim=True).expand_as(part) for part in output)

        hook = mixing.pipeline.unet.register_forward_hook(mix)
        runs = runs_of(mixing, "text2image")
        with pytest.raises(RunFailed, match="not what it is alone: levels"):
            mixing.draw_together(runs)
        hook.remove()
        calls = len(called)
        with pytest.raises(RunFailed, match="not what it is alone: levels"):
            mixing.draw_together(runs_of(mixing, "text2image"))
        assert len(called) == calls, "it was not drawn in vain"

    def test_the_comparison_is_made_once_for_each_shape(self, studio: Studio) -> None:
        shared: list[str] = []

        def stages(count: int, **config: Any) -> int:
            shared.clear()
            runs = runs_of(studio, "text2image", **config)[:count]
            studio.draw_together(
                runs,
                listener=lambda event: (
                    event.event == "stage_started" and shared.append(event.stage)
                ),
            )
            return shared.count("compare")

        assert [stages(3), stages(3), stages(2), stages(2), stages(3, width=48)] == [1, 0, 1, 0, 1]

    def test_generators_that_are_swapped_would_be_noticed(self, studio: Studio) -> None:
        calls = [studio.model._prepared(run) for run in runs_of(studio, "text2image")]
        arguments, parts = merged(calls)
        assert parts == [slice(n, n + 1) for n in range(4)]
        arguments["generator"] = [torch.Generator().manual_seed(s) for s in (11, 10, 12, 13)]
        images = studio.pipeline(**arguments).images
        own = [pixels(alone(studio, run).bytes) for run in runs_of(studio, "text2image")]
        equal = [
            apart(Answer("picture", a), Answer("picture", (b * 255.0).round()), rounding="cpu")
            for a, b in zip(own, images, strict=True)
        ]
        assert [one is None for one in equal] == [False, False, True, True]
