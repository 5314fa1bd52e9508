"""Measure how often the coloured-digit pipeline draws the digit and the colour it was asked for.

A support vector machine fitted on three quarters of the real digits reads the pictures; its own
accuracy on the last quarter is printed first.  The colour is the nearest palette colour of the
bright pixels.  Wordings that were trained and wordings that were not are reported apart.

Example::

    python tools/judge_sdxl_digits.py sdxl-digits
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from diffusers import (
    DiffusionPipeline,
    StableDiffusionXLImg2ImgPipeline,
    StableDiffusionXLInpaintPipeline,
    StableDiffusionXLPipeline,
)
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC
from torch import Tensor
from train_sdxl_digits import (
    COLOURLESS_TEMPLATES,
    COLOURS,
    DEVELOPMENT_TEMPLATES,
    DIGITS,
    HELD_OUT_TEMPLATES,
    IMAGE_SIZE,
    TRAINED_TEMPLATES,
    WHITE,
    load_pictures,
    palette,
    tint,
)

BATCH = 40


class Cases(NamedTuple):
    """Prompts with the digit and the colour that each of them asks for."""

    prompts: list[str]
    digits: np.ndarray
    colours: np.ndarray


class Judge:
    """Reads the digit and the colour of pictures."""

    def __init__(self) -> None:
        pictures, labels = load_pictures()
        features = self.shrink(pictures.repeat(1, 3, 1, 1))
        train, test, train_labels, test_labels = train_test_split(
            features, labels.numpy(), test_size=0.25, random_state=0, stratify=labels.numpy()
        )
        self.reader = SVC(C=10, gamma="scale").fit(train, train_labels)
        self.accuracy = float((self.reader.predict(test) == test_labels).mean())
        self.held_out_pictures = len(test)

    @staticmethod
    def shrink(images: Tensor) -> np.ndarray:
        """Turn (n, 3, 32, 32) pictures, from 0 to 1, into (n, 64) grey values, colour left out."""
        return F.avg_pool2d(images.amax(1, keepdim=True), IMAGE_SIZE // 8).flatten(1).numpy()

    def read_digits(self, images: Tensor) -> np.ndarray:
        """Return the digit in each of (n, 3, 32, 32) pictures: (n,)."""
        return self.reader.predict(self.shrink(images))

    @staticmethod
    def read_colours(images: Tensor) -> np.ndarray:
        """Return the palette index nearest to the mean bright pixel of each picture: (n,)."""
        bright = (images.amax(1, keepdim=True) > 0.5).float()
        mean = (images * bright).sum((2, 3)) / bright.sum((2, 3)).clamp(min=1)
        mean = mean / mean.amax(1, keepdim=True).clamp(min=1e-3)
        return torch.cdist(mean, palette()).argmin(1).numpy()


def choose_cases(templates: tuple[str, ...], count: int, seed: int) -> Cases:
    """Fill templates in turn; digits, colours and word or numeral are spread evenly."""
    rng = random.Random(seed)
    pairs = [(digit, colour) for digit in range(len(DIGITS)) for colour in range(len(COLOURS))]
    prompts, digits, colours = [], [], []
    for index in range(count):
        if index % len(pairs) == 0:
            rng.shuffle(pairs)
        digit, colour = pairs[index % len(pairs)]
        template = templates[index % len(templates)]
        word = DIGITS[digit] if rng.random() < 0.5 else str(digit)
        prompts.append(template.format(c=list(COLOURS)[colour], w=word))
        digits.append(digit)
        colours.append(colour if "{c}" in template else WHITE)
    return Cases(prompts, np.array(digits), np.array(colours))


def draw(pipe: DiffusionPipeline, prompts: list[str], seed: int, **settings: object) -> Tensor:
    """Run a pipeline over the prompts; return (n, 3, 32, 32) pictures from 0 to 1.

    Tensors and lists among the settings are cut into batches like the prompts.
    """
    parts = []
    for start in range(0, len(prompts), BATCH):
        batch = {
            name: value[start : start + BATCH] if isinstance(value, Tensor | list) else value
            for name, value in settings.items()
        }
        images = pipe(
            prompts[start : start + BATCH],
            generator=torch.Generator().manual_seed(seed + start),
            output_type="pt",
            **batch,
        ).images
        parts.append(images.float())
    return torch.cat(parts)


def report(name: str, judge: Judge, images: Tensor, cases: Cases, verbose: bool = False) -> None:
    """Print one line of the table, and the mistakes if asked to."""
    digits, colours = judge.read_digits(images), judge.read_colours(images)
    right_digit, right_colour = digits == cases.digits, colours == cases.colours
    print(
        f"| {name} | {len(images)} | {right_digit.mean():.1%} | {right_colour.mean():.1%} |",
        flush=True,
    )
    if verbose:
        for index in np.flatnonzero(~(right_digit & right_colour)):
            seen = f"{list(COLOURS)[colours[index]]} {digits[index]}"
            print(f"    {cases.prompts[index]!r} was read as {seen}")


@torch.no_grad()
def report_editing(folder: Path, judge: Judge, count: int, seed: int) -> None:
    """Try the autoencoder, image to image and inpainting on real digits."""
    pictures, labels = load_pictures()
    pick = torch.randperm(len(pictures), generator=torch.Generator().manual_seed(seed))[:count]
    cases = choose_cases(TRAINED_TEMPLATES, count, seed)
    old_colours = palette()[torch.from_numpy(cases.colours)]
    images = tint(pictures[pick], old_colours)

    pipe = StableDiffusionXLImg2ImgPipeline.from_pretrained(folder, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    decoded = pipe.vae.decode(pipe.vae.encode(images).latent_dist.mean).sample
    error = F.mse_loss(decoded.clamp(-1, 1) / 2, images / 2).item()
    real = Cases([], labels[pick].numpy(), cases.colours)
    name = f"autoencoder alone, mean squared error {error:.5f} (pixels from 0 to 1)"
    report(name, judge, (decoded / 2 + 0.5).clamp(0, 1), real)

    new_colours = (cases.colours + 2) % len(COLOURS)
    prompts = [
        f"a {list(COLOURS)[colour]} {DIGITS[digit]}"
        for digit, colour in zip(labels[pick].tolist(), new_colours, strict=True)
    ]
    wanted = Cases(prompts, labels[pick].numpy(), new_colours)
    start = images / 2 + 0.5
    settings = dict(num_inference_steps=20, guidance_scale=3.0)
    changed = draw(pipe, prompts, seed, image=start, strength=0.7, **settings)
    report("image to image, same digit, new colour, strength 0.7", judge, changed, wanted)

    pipe = StableDiffusionXLInpaintPipeline.from_pretrained(folder, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)
    same = [
        f"a {list(COLOURS)[colour]} {DIGITS[digit]}"
        for digit, colour in zip(labels[pick].tolist(), cases.colours, strict=True)
    ]
    mask = torch.zeros(count, 1, IMAGE_SIZE, IMAGE_SIZE)
    mask[:, :, IMAGE_SIZE // 2 :] = 1
    holed = start * (1 - mask)
    filled = draw(pipe, same, seed, image=holed, mask_image=mask, strength=1.0, **settings)
    wanted = Cases(same, labels[pick].numpy(), cases.colours)
    report("inpainting, lower half taken away", judge, filled, wanted)


def main() -> None:
    """Print a Markdown table of accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path, help="folder of the pipeline")
    parser.add_argument("--images", type=int, default=280, help="pictures per line of the table")
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 20])
    parser.add_argument("--guidance", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1234)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--development", action="store_true", help="judge those wordings only")
    parser.add_argument("--brief", action="store_true", help="leave out the lines on other uses")
    parser.add_argument("--verbose", action="store_true", help="print the mistakes")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    judge = Judge()
    count = judge.held_out_pictures
    print(f"The judge reads {judge.accuracy:.1%} of {count} real digits it was not fitted on.\n")
    pipe = StableDiffusionXLPipeline.from_pretrained(args.model, dtype=torch.float32)
    pipe.set_progress_bar_config(disable=True)

    groups = {"trained wordings": TRAINED_TEMPLATES, "held-out wordings": HELD_OUT_TEMPLATES}
    if args.development:
        groups = {"development wordings": DEVELOPMENT_TEMPLATES}
    settings = dict(guidance_scale=args.guidance)
    print("| what | images | digit right | colour right |\n|---|---|---|---|")
    for steps in args.steps:
        for name, templates in groups.items():
            cases = choose_cases(templates, args.images, args.seed)
            images = draw(pipe, cases.prompts, args.seed, num_inference_steps=steps, **settings)
            label = f"{name}, {steps} steps, guidance {args.guidance:g}"
            report(label, judge, images, cases, args.verbose)
    if args.brief:
        return
    settings["num_inference_steps"] = 10
    cases = choose_cases(COLOURLESS_TEMPLATES, args.images, args.seed + 2)
    images = draw(pipe, cases.prompts, args.seed, **settings)
    report("trained wordings without a colour (white), 10 steps", judge, images, cases)
    cases = choose_cases(TRAINED_TEMPLATES, args.images, args.seed + 1)
    negative = ["blurry, low quality"] * args.images
    images = draw(pipe, cases.prompts, args.seed, negative_prompt=negative, **settings)
    report("trained wordings, negative prompt, 10 steps", judge, images, cases)
    shouted = [prompt.upper() + "." for prompt in cases.prompts]
    images = draw(pipe, shouted, args.seed, **settings)
    report("trained wordings, upper case and full stop, 10 steps", judge, images, cases)
    report_editing(args.model, judge, min(args.images, 140), args.seed)

    begin = time.perf_counter()
    twice = [draw(pipe, ["a red seven"], 7, **settings).numpy() for _ in range(2)]
    seconds = (time.perf_counter() - begin) / 2
    same = twice[0].tobytes() == twice[1].tobytes()
    print(f"\nOne picture, 10 steps: {seconds:.2f} s.  Equal seeds, equal bytes: {same}.")
    print(f"sha256 of it: {hashlib.sha256(twice[0].tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()
