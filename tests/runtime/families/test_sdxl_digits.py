"""The embedded picture model draws what it is asked for. A judge that it never met reads it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("diffusers", reason="needs the runtime extra")

import numpy as np
from digit_judge import accuracy, read_colour, read_digit
from PIL import Image
from studio import Shot, Studio

import jumar
from jumar import catalog

pytestmark = [pytest.mark.models, pytest.mark.usefixtures("one_thread")]

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "white")
PROMPTS = [
    (f"a {COLOURS[digit % 7]} {word}", digit, COLOURS[digit % 7])
    for digit, word in enumerate(DIGITS)
]


@pytest.fixture(scope="module")
def model() -> Studio:
    folder = Path(jumar.__file__).parent / "assets" / "sdxl-digits"
    return Studio(catalog.get("sdxl-digits"), folder)


def pixels(shot: Shot) -> list[np.ndarray[Any, Any]]:
    return [np.asarray(Image.open(io.BytesIO(file))) for file in shot.files]


@pytest.fixture(scope="module")
def drawn(model: Studio) -> dict[str, list[np.ndarray[Any, Any]]]:
    """Four pictures of each digit."""
    config = {"seed": 100, "num_images_per_prompt": 4}
    return {
        prompt: pixels(model.draw("text2image", {"prompt": prompt}, config))
        for prompt, _, _ in PROMPTS
    }


def test_the_judge_can_read() -> None:
    assert accuracy() > 0.98


def test_at_least_nine_of_ten_pictures_show_the_digit_asked_for(drawn: Any) -> None:
    right = [read_digit(image) == digit for prompt, digit, _ in PROMPTS for image in drawn[prompt]]
    assert len(right) == 40
    assert np.mean(right) >= 0.9


def test_at_least_nine_of_ten_pictures_have_the_colour_asked_for(drawn: Any) -> None:
    right = [read_colour(i) == colour for prompt, _, colour in PROMPTS for i in drawn[prompt]]
    assert np.mean(right) >= 0.9


@pytest.fixture
def red_seven(model: Studio, tmp_path: Path) -> str:
    shot = model.draw("text2image", {"prompt": "a red seven"}, {"seed": 3})
    path = tmp_path / "seven.png"
    path.write_bytes(shot.bytes)
    return str(path)


def test_image2image_gives_a_digit_another_colour(model: Studio, red_seven: str) -> None:
    config = {"seed": 1, "num_images_per_prompt": 6, "num_inference_steps": 20, "strength": 0.7}
    shot = model.draw("image2image", {"prompt": "a blue seven", "image": red_seven}, config)
    images = pixels(shot)
    assert sum(read_colour(image) == "blue" for image in images) >= 5
    assert sum(read_digit(image) == 7 for image in images) >= 5


def test_less_strength_keeps_more_of_the_image(model: Studio, red_seven: str) -> None:
    original = np.asarray(Image.open(red_seven)).astype(int)
    inputs = {"prompt": "a blue two", "image": red_seven}

    def distance(strength: float) -> float:
        config = {"seed": 1, "num_images_per_prompt": 4, "strength": strength}
        images = pixels(model.draw("image2image", inputs, config))
        return float(np.mean([abs(image.astype(int) - original) for image in images]))

    assert distance(0.2) < distance(0.6) < distance(1.0)


def test_inpaint_keeps_what_is_not_masked(model: Studio, red_seven: str, tmp_path: Path) -> None:
    mask = np.zeros((32, 32), np.uint8)
    mask[16:] = 255
    Image.fromarray(mask).save(tmp_path / "mask.png")
    original = np.asarray(Image.open(red_seven)).astype(int)
    inputs = {"prompt": "a red two", "image": red_seven, "mask": str(tmp_path / "mask.png")}
    config = {"seed": 9, "num_images_per_prompt": 4, "num_inference_steps": 20}
    changes = [
        abs(image.astype(int) - original) for image in pixels(model.draw("inpaint", inputs, config))
    ]
    kept = [change[:12].mean() for change in changes]
    redrawn = [change[16:].mean() for change in changes]
    assert max(kept) < 12  # what the autoencoder itself loses, of 255 levels
    assert min(redrawn) > 2 * max(kept)


@pytest.mark.parametrize(
    "name", catalog.get("sdxl-digits").tasks["text2image"].config["scheduler"].choices
)
def test_every_scheduler_that_is_offered_draws_digits(model: Studio, name: str) -> None:
    config = {"seed": 5, "num_images_per_prompt": 8, "scheduler": name, "num_inference_steps": 15}
    images = pixels(model.draw("text2image", {"prompt": "a green three"}, config))
    assert sum(read_digit(image) == 3 for image in images) >= 7
