"""Train a tiny Stable Diffusion XL pipeline that draws coloured digits, from scratch, on a CPU.

The pictures are the 1,797 handwritten digits that come with scikit-learn, enlarged to 32x32 and
tinted with one of seven colours.  Four models are trained, one after another:

1. a byte-level BPE tokenizer and two small CLIP text encoders, which learn to tell the digit and
   the colour from thousands of wordings and to ignore every other word; they are frozen afterwards
   (training them together with the UNet needs far more steps);
2. a variational autoencoder, 32x32 pixels to 8x8 latents;
3. a conditional UNet that predicts the noise in those latents.

Example::

    python tools/train_sdxl_digits.py --out sdxl-digits
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import pydoc_data.topics
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    DDPMScheduler,
    StableDiffusionXLPipeline,
    UNet2DConditionModel,
)
from sklearn.datasets import load_digits
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
COLOURS = {
    "white": (1.0, 1.0, 1.0),
    "red": (1.0, 0.15, 0.15),
    "green": (0.15, 0.9, 0.2),
    "blue": (0.25, 0.4, 1.0),
    "yellow": (1.0, 0.9, 0.1),
    "purple": (0.75, 0.3, 1.0),
    "orange": (1.0, 0.55, 0.1),
}
WHITE, NO_DIGIT, NO_COLOUR = 0, len(DIGITS), len(COLOURS)
PROMPT_TOKENS, TEXT_WIDTH, POOLED_GAIN, IMAGE_SIZE, LATENT_SIZE = 32, 48, 4.0, 32, 8

# {w} is the digit, as a word or a numeral; {c} is the colour.
TRAINED_TEMPLATES = tuple(
    (
        "a {c} {w}|the {c} {w}|{c} {w}|{w} {c}|{w}, {c}|{c}, {w}|{c}: {w}|{w} ({c})|a {w} in {c}|"
        "{w} in {c}|the digit {w} in {c}|the number {w} in {c}|digit {w}, {c}|{c} digit {w}|"
        "{c} number {w}|a {w} that is {c}|a {w} which is {c}|the {w} is {c}|"
        "number {w} with {c} ink|{w} in {c} ink|a {w} written in {c}|a {w} painted {c}|"
        "a {w} drawn in {c}|"
        "a {w} painted in {c}|{w} made of {c} ink|a {c} coloured {w}|a {c} colored {w}|"
        "a {w} coloured {c}|a {w} colored {c}|{c}-coloured {w}|a {w} in the colour {c}|"
        "a {w} of {c} color|colour {c}, digit {w}|digit {w}, color {c}|a handwritten {c} {w}|"
        "handwritten {w} in {c}|a {c} handwritten digit {w}|a photo of a {c} {w}|"
        "a photo of the number {w} written in {c}|a picture of the {c} number {w}|"
        "an image of a {c} {w}|a drawing of the digit {w} in {c}|a painting of a {c} {w}|"
        "digital art of a {c} {w}|draw a {c} {w}|draw the number {w} in {c} ink|draw {w} in {c}|"
        "paint a {c} {w}|paint {w} {c}|please paint a {c} {w}|please draw the {c} digit {w}|"
        "please write {w} in {c}|write a {c} {w}|write the number {w} in {c} ink|show a {c} {w}|"
        "show me the digit {w} in {c}|show me {w}, {c}|make a {c} {w}|make the {w} {c}|"
        "generate a {c} {w}|generate the number {w} in {c}, please|generate an image of a {c} {w}|"
        "a {c} {w}, digital art|a {c} {w}, high quality|a {c} {w} on a black background|"
        "{w} in {c} on a black background|on a black background, a {c} {w}|"
        "high quality photo of a {c} {w}|a high quality handwritten {w} in {c}|i want a {c} {w}|"
        "give me a {c} {w}|give me the number {w} in {c}|there is a {c} {w}|this is a {c} {w}|"
        "in {c}, the digit {w}|in {c} ink: {w}|with {c} ink, a {w}|a small {c} {w}|a large {c} {w}"
    ).split("|")
)
COLOURLESS_TEMPLATES = tuple(
    (
        "{w}|a {w}|the {w}|digit {w}|number {w}|the digit {w}|the number {w}|a handwritten {w}|"
        "draw a {w}|please paint a {w}|write {w}|show me the number {w}|a photo of a {w}|"
        "generate the digit {w}|make a {w}|a {w} on a black background|a drawing of the number {w}|"
        "a picture of the digit {w}"
    ).split("|")
)
# Looked at while the recipe was being written, never trained.
DEVELOPMENT_TEMPLATES = (
    "can you render a {w} with {c} lines",
    "we see {c} handwriting here: {w}",
    "the {w} should look {c}",
    "{c} shade, numeric symbol {w}",
    "a beautiful {c} figure {w} at night",
    "type {w} using the {c} pen",
)
# Never trained, nor are the words in them that no other list has; only for the final measurement.
HELD_OUT_TEMPLATES = (
    "could you sketch the numeral {w} with {c} paint",
    "i would like to see a {w}, and it must be {c}",
    "{c} is the colour of this {w}",
    "a big {w} scribbled with a {c} crayon",
    "create a nice {c} {w} for my birthday card",
    "the colour is {c} and the digit is {w}",
    "an illustration showing {w} in bright {c}",
    "my favourite number is {w}, so print it {c}",
    "a {c} neon sign of the number {w}",
    "{w} in {c} chalk, masterpiece, highly detailed",
    "{c} character {w}, minimal poster",
    "let me have {w} tinted {c}",
)
Model = TypeVar("Model", bound=nn.Module)
PREFIXES = (
    "please|draw|paint|write|show|make|generate|please draw|please paint|please write|please show|"
    "please make|please generate|a photo of|a picture of|an image of|a drawing of|handwritten|"
    "digital art,|high quality|high quality photo of|art of"
).split("|")
SUFFIXES = (
    ".|!|, please|please|, high quality|, digital art|, handwritten|on a black background|, photo|"
    "on black|, in high quality.|, black background|, art"
).split("|")


class Prompts(NamedTuple):
    """Tokenized prompts (n, PROMPT_TOKENS) with their digit (n,) and colour (n,) labels."""

    ids: Tensor
    digits: Tensor
    colours: Tensor


# ------------------------------------------------------------------------------------- pictures


def load_pictures() -> tuple[Tensor, Tensor]:
    """Return the digits enlarged to (1797, 1, 32, 32), from 0 to 1, and their labels (1797,)."""
    pixels, labels = load_digits(return_X_y=True)
    small = torch.tensor(pixels / 16.0, dtype=torch.float32).view(-1, 1, 8, 8)
    large = F.interpolate(small, size=IMAGE_SIZE, mode="bicubic", align_corners=False)
    return large.clamp(0, 1), torch.tensor(labels)


def tint(grey: Tensor, colours: Tensor) -> Tensor:
    """Colour (n, 1, h, w) pictures with (n, 3) colours: (n, 3, h, w), from -1 to 1."""
    return grey * colours[:, :, None, None] * 2 - 1


def palette() -> Tensor:
    """Return the colours as (7, 3)."""
    return torch.tensor(list(COLOURS.values()))


# ------------------------------------------------------------------------------------- wordings


def filler_words() -> list[str]:
    """Return English words that say nothing about digits or colours: Python's own help texts."""
    templates = " ".join(TRAINED_TEMPLATES + HELD_OUT_TEMPLATES + DEVELOPMENT_TEMPLATES)
    taken = {*DIGITS, *COLOURS, *re.findall("[a-z]+", templates)}
    text = " ".join(pydoc_data.topics.topics.values()).lower()
    return sorted(set(re.findall(r"\b[a-z]{2,12}\b", text)) - taken)


def invent_word(rng: random.Random) -> str:
    """Make up a word, so that rare byte pairs are seen too."""
    syllables = (rng.choice("bcdfghjklmnprstvwz") + rng.choice("aeiouy") for _ in range(4))
    word = "".join(list(syllables)[: rng.randint(1, 4)]) + rng.choice(["", "n", "s", "r", "t", "x"])
    return "thing" if word in DIGITS or word in COLOURS else word


def add_fillers(text: str, words: list[str], rng: random.Random, most: int) -> str:
    """Put up to `most` words that mean nothing here before, after or inside `text`."""
    parts = text.split()
    for _ in range(rng.randint(1, most)):
        word = rng.choice(words) if rng.random() < 0.75 else invent_word(rng)
        place = rng.choice([0, len(parts), rng.randint(0, len(parts))])
        parts.insert(place, word + rng.choice(["", "", "", ",", "."]))
    return " ".join(parts)


def write_prompt(words: list[str], rng: random.Random) -> tuple[str, int, int]:
    """Word one prompt at random; return it with its digit and colour labels."""
    if rng.random() < 0.08:  # says neither: stands for "no condition" beside the empty prompt
        start = rng.choice(["", "", *PREFIXES, "low quality", "blurry", "a digit", "a number"])
        text = add_fillers(start, words, rng, most=5)
        return text, NO_DIGIT, NO_COLOUR
    digit, colour = rng.randrange(len(DIGITS)), rng.randrange(len(COLOURS))
    templates = TRAINED_TEMPLATES
    if rng.random() < 0.12:
        templates, colour = COLOURLESS_TEMPLATES, WHITE
    numeral = rng.random() < 0.4
    text = rng.choice(templates).format(
        c=list(COLOURS)[colour], w=str(digit) if numeral else DIGITS[digit]
    )
    if rng.random() < 0.3:
        text = f"{rng.choice(PREFIXES)} {text}"
    if rng.random() < 0.3:
        text = f"{text} {rng.choice(SUFFIXES)}".replace(" ,", ",").replace(" .", ".")
    if rng.random() < 0.5:
        text = add_fillers(text, words, rng, most=6)
    return text, digit, colour


def train_tokenizer(texts: list[str]) -> CLIPTokenizer:
    """Train a byte-level BPE tokenizer with CLIP's rules: lower case, every digit on its own."""
    start, end, suffix = "<|startoftext|>", "<|endoftext|>", "</w>"
    rules = CLIPTokenizer(vocab={start: 0, end: 1}, merges=[]).backend_tokenizer
    bpe = Tokenizer(models.BPE(unk_token=end, end_of_word_suffix=suffix))
    bpe.normalizer, bpe.pre_tokenizer = rules.normalizer, rules.pre_tokenizer
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # The trainer numbers the last bytes of words in an order that changes from run to run, unless
    # they are listed.
    trainer = trainers.BpeTrainer(
        vocab_size=1400,
        special_tokens=[start, end, *(byte + suffix for byte in alphabet)],
        initial_alphabet=alphabet,
        end_of_word_suffix=suffix,
        show_progress=False,
    )
    bpe.train_from_iterator(texts + alphabet, trainer)
    model = json.loads(bpe.to_str())["model"]
    merges = [tuple(pair) for pair in model["merges"]]
    return CLIPTokenizer(vocab=model["vocab"], merges=merges, model_max_length=PROMPT_TOKENS)


def tokenize(tokenizer: CLIPTokenizer, texts: list[str]) -> Tensor:
    """Return token ids (n, PROMPT_TOKENS), padded with the end token as the pipeline does it."""
    batch = tokenizer(
        texts, padding="max_length", max_length=PROMPT_TOKENS, truncation=True, return_tensors="pt"
    )
    return batch.input_ids


def build_prompts(count: int, seed: int) -> tuple[CLIPTokenizer, Prompts]:
    """Word `count` prompts, train the tokenizer on them and keep those that are not truncated."""
    rng, words = random.Random(seed), filler_words()
    written = [write_prompt(words, rng) for _ in range(count)]
    held_out = {text.lower() for text, _, _ in fill(HELD_OUT_TEMPLATES + DEVELOPMENT_TEMPLATES)}
    written = [prompt for prompt in written if prompt[0].lower() not in held_out]
    tokenizer = train_tokenizer([text for text, _, _ in written])
    ids = tokenize(tokenizer, [text for text, _, _ in written])
    whole = ids[:, -1] == tokenizer.eos_token_id
    digits = torch.tensor([digit for _, digit, _ in written])
    colours = torch.tensor([colour for _, _, colour in written])
    print(f"{int(whole.sum())} prompts, {len(words)} filler words, {len(tokenizer)} tokens")
    return tokenizer, Prompts(ids[whole], digits[whole], colours[whole])


def fill(templates: tuple[str, ...]) -> Iterator[tuple[str, int, int]]:
    """Yield every wording of the templates, digits as words and as numerals, with its labels."""
    for template in templates:
        for digit, word in enumerate(DIGITS):
            for colour, name in enumerate(COLOURS):
                yield template.format(c=name, w=word), digit, colour
                yield template.format(c=name, w=digit), digit, colour


# --------------------------------------------------------------------------------- text encoders


class TextEncoders(nn.Module):
    """The two CLIP encoders of a Stable Diffusion XL pipeline."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        settings = dict(
            vocab_size=vocabulary,
            hidden_size=TEXT_WIDTH,
            intermediate_size=2 * TEXT_WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=PROMPT_TOKENS,
            projection_dim=TEXT_WIDTH,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
        self.first = CLIPTextModel(CLIPTextConfig(**settings))
        self.second = CLIPTextModelWithProjection(CLIPTextConfig(**settings))

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (n, PROMPT_TOKENS) ids as the pipeline does it.

        Returns the penultimate states of both, (n, PROMPT_TOKENS, 2 * TEXT_WIDTH), and the pooled
        embedding of the second, (n, TEXT_WIDTH).
        """
        first = self.first(ids, output_hidden_states=True)
        second = self.second(ids, output_hidden_states=True)
        states = torch.cat([first.hidden_states[-2], second.hidden_states[-2]], dim=-1)
        return states, second.text_embeds


def train_text(
    encoders: TextEncoders, tokenizer: CLIPTokenizer, prompts: Prompts, steps: int, batch: int = 128
) -> None:
    """Teach the encoders to tell digit and colour, whatever the wording.

    The pooled embedding is pulled to a fixed random code per digit plus one per colour, so that all
    wordings of one picture land in one place.  The states from the end token on, which have seen
    the whole prompt, have to give the same labels through a linear layer.  In the end the pooled
    embedding is enlarged: the UNet learns the digits in far fewer steps from a strong signal.
    """
    digit_codes = torch.randn(NO_DIGIT + 1, TEXT_WIDTH)
    colour_codes = torch.randn(NO_COLOUR + 1, TEXT_WIDTH)
    sizes = [NO_DIGIT + 1, NO_COLOUR + 1]
    pooled_head = nn.Linear(TEXT_WIDTH, sum(sizes))
    states_head = nn.Linear(2 * TEXT_WIDTH, sum(sizes))

    def read(ids: Tensor) -> tuple[Tensor, list[Tensor]]:
        states, pooled = encoders(ids)
        after_end = (ids == tokenizer.eos_token_id).float()[:, :, None]
        mean = (states * after_end).sum(1) / after_end.sum(1)
        return pooled, [pooled_head(pooled), states_head(mean)]

    weights = [*encoders.parameters(), *pooled_head.parameters(), *states_head.parameters()]
    optimizer = torch.optim.AdamW(weights, 2e-3, weight_decay=0.02)
    log = Log("text", steps)
    for step in range(steps):
        set_rate(optimizer, 2e-3, step, steps, warmup=100)
        pick = torch.randint(0, len(prompts.ids), (batch,))
        digits, colours = prompts.digits[pick], prompts.colours[pick]
        pooled, guesses = read(prompts.ids[pick])
        loss = 0.5 * F.mse_loss(pooled, digit_codes[digits] + colour_codes[colours])
        for guess in guesses:
            digit_guess, colour_guess = guess.split(sizes, dim=1)
            loss = loss + F.cross_entropy(digit_guess, digits)
            loss = loss + F.cross_entropy(colour_guess, colours)
        update(optimizer, weights, loss)
        log(step, loss)
    for name, templates in (("trained", TRAINED_TEMPLATES), ("development", DEVELOPMENT_TEMPLATES)):
        texts, digits, colours = map(list, zip(*fill(templates), strict=True))
        with torch.no_grad():
            _, guesses = read(tokenize(tokenizer, texts))
        for part, guess in zip(("pooled", "states"), guesses, strict=True):
            digit_guess, colour_guess = (one.argmax(1) for one in guess.split(sizes, dim=1))
            digit_share = (digit_guess == torch.tensor(digits)).float().mean()
            colour_share = (colour_guess == torch.tensor(colours)).float().mean()
            print(f"text: {name} wordings, {part}: {digit_share:.3f} {colour_share:.3f}")
    encoders.second.text_projection.weight.data.mul_(POOLED_GAIN)


# ------------------------------------------------------------------------------------ autoencoder


def vary(grey: Tensor, colours: Tensor) -> Tensor:
    """Tint (n, 1, 32, 32) pictures with (n, 3) colours, but half of them in unusual ways.

    Those are moved by some pixels, get a colour of their own, or two colours, so that the
    autoencoder also copes with the pictures that people hand in for editing.
    """
    count = len(grey)
    plain = tint(grey, colours)
    shift = [int(value) for value in torch.randint(-5, 6, (2,))]
    odd = tint(torch.roll(grey, shift, dims=(2, 3)), torch.rand(count, 3).sqrt())
    edge = int(torch.randint(0, IMAGE_SIZE, ()))
    odd[::2, :, edge:] = plain[::2, :, edge:]
    return torch.where(torch.rand(count, 1, 1, 1) < 0.5, plain, odd)


def build_autoencoder() -> AutoencoderKL:
    """Return an untrained autoencoder: (n, 3, 32, 32) pictures, (n, 4, 8, 8) latents."""
    return AutoencoderKL(
        block_out_channels=(8, 16, 32),
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=IMAGE_SIZE,
        mid_block_add_attention=False,
        force_upcast=False,
    )


def train_autoencoder(vae: AutoencoderKL, pictures: Tensor, steps: int, batch: int = 8) -> None:
    """Train the autoencoder on tinted (n, 1, 32, 32) pictures."""
    weights = list(vae.parameters())
    optimizer = torch.optim.AdamW(weights, 4e-3, betas=(0.9, 0.99))
    log = Log("autoencoder", steps)
    for step in range(steps):
        set_rate(optimizer, 4e-3, step, steps, warmup=20)
        pick = torch.randint(0, len(pictures), (batch,))
        images = vary(pictures[pick], palette()[torch.randint(0, len(COLOURS), (batch,))])
        posterior = vae.encode(images).latent_dist
        error = vae.decode(posterior.sample()).sample - images
        squared = error.square().mean()
        loss = squared + 0.3 * error.abs().mean() + 1e-4 * posterior.kl().mean() / 256
        update(optimizer, weights, loss)
        log(step, squared)


@torch.no_grad()
def encode_pictures(vae: AutoencoderKL, pictures: Tensor) -> Tensor:
    """Return the latents of every picture in every colour, (n, 7, 4, 8, 8), scaled to deviation 1.

    The scale is written into the autoencoder's configuration.
    """
    tinted = [tint(pictures, colour.expand(len(pictures), 3)) for colour in palette()]
    latents = torch.stack(
        [torch.cat([vae.encode(part).latent_dist.mean for part in t.split(200)]) for t in tinted], 1
    )
    vae.register_to_config(scaling_factor=1 / latents.std().item())
    return latents * vae.config.scaling_factor


# ------------------------------------------------------------------------------------------- UNet


def build_unet() -> UNet2DConditionModel:
    """Return an untrained UNet: (n, 4, 8, 8) latents."""
    return UNet2DConditionModel(
        sample_size=LATENT_SIZE,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=2 * TEXT_WIDTH,
        attention_head_dim=(2, 4),
        use_linear_projection=True,
        norm_num_groups=8,
        addition_embed_type="text_time",
        addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=TEXT_WIDTH + 6 * 8,
    )


def train_unet(
    unet: UNet2DConditionModel,
    latents: Tensor,
    labels: Tensor,
    encoders: TextEncoders,
    prompts: Prompts,
    empty: Tensor,
    steps: int,
    batch: int = 32,
) -> None:
    """Train the UNet to predict the noise in (n, 7, 4, 8, 8) latents.

    Each picture gets a random wording of its digit and colour.  One in ten gets no condition: the
    `empty` prompt, (1, PROMPT_TOKENS) ids, or one that names neither digit nor colour.
    In the end the UNet gets the running average of its weights.
    """
    averaged = copy.deepcopy(unet).requires_grad_(False)
    scheduler = DDPMScheduler(1000, beta_schedule="squaredcos_cap_v2")
    sizes = torch.tensor([[IMAGE_SIZE, IMAGE_SIZE, 0, 0, IMAGE_SIZE, IMAGE_SIZE]] * batch).float()
    by_digit = [(labels == digit).nonzero()[:, 0] for digit in range(len(DIGITS))]
    named = (prompts.digits != NO_DIGIT).nonzero()[:, 0]
    unnamed = (prompts.digits == NO_DIGIT).nonzero()[:, 0]
    weights = list(unet.parameters())
    optimizer = torch.optim.AdamW(weights, 2e-3, weight_decay=1e-4)
    log = Log("unet", steps)
    for step in range(steps):
        set_rate(optimizer, 2e-3, step, steps, warmup=100)
        pick = named[torch.randint(0, len(named), (batch,))]
        chosen = [
            by_digit[digit][int(torch.randint(0, len(by_digit[digit]), ()))]
            for digit in prompts.digits[pick].tolist()
        ]
        clean = latents[torch.stack(chosen), prompts.colours[pick]]
        other = prompts.ids[unnamed[torch.randint(0, len(unnamed), (batch,))]]
        draw = torch.rand(batch, 1)
        ids = torch.where(draw < 0.06, empty, torch.where(draw < 0.1, other, prompts.ids[pick]))
        with torch.no_grad():
            states, pooled = encoders(ids)
        noise = torch.randn_like(clean)
        times = (1000 * torch.rand(batch) ** 0.7).long()  # rather noisy: there the digit is decided
        condition = dict(text_embeds=pooled, time_ids=sizes)
        noisy = scheduler.add_noise(clean, noise, times)
        guess = unet(noisy, times, states, added_cond_kwargs=condition).sample
        loss = F.mse_loss(guess, noise)
        update(optimizer, weights, loss)
        decay = min(0.995, (step + 1) / (step + 10))
        for slow, fast in zip(averaged.parameters(), weights, strict=True):
            slow.lerp_(fast.detach(), 1 - decay)
        log(step, loss)
    unet.load_state_dict(averaged.state_dict())


# ---------------------------------------------------------------------------------------- helpers


def set_rate(
    optimizer: torch.optim.Optimizer, peak: float, step: int, steps: int, warmup: int
) -> None:
    """Set the learning rate: a short linear rise, then half a cosine down to 2 % of the peak."""
    cosine = 0.5 * (1 + math.cos(math.pi * step / steps)) + 0.02
    for group in optimizer.param_groups:
        group["lr"] = peak * min(1, (step + 1) / warmup) * cosine


def update(optimizer: torch.optim.Optimizer, weights: list[nn.Parameter], loss: Tensor) -> None:
    """Take one optimizer step with clipped gradients."""
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


class Log:
    """Prints a running mean of the loss about ten times."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.every, self.start, self.mean = name, max(1, steps // 10), time.time(), 0.0

    def __call__(self, step: int, loss: Tensor) -> None:
        keep = min(0.98, step / (step + 1))
        self.mean = keep * self.mean + (1 - keep) * loss.item()
        if (step + 1) % self.every == 0 or step == 9:
            seconds = time.time() - self.start
            print(f"{self.name}: step {step + 1}, {seconds:.0f} s, {self.mean:.5f}", flush=True)


def finish(
    cache: Path | None,
    name: str,
    seed: int,
    build: Callable[[], Model],
    train: Callable[[Model], None],
) -> Model:
    """Train a stage with a seed of its own, or reuse the weights an earlier run kept of it."""
    torch.manual_seed(seed)
    model = build()
    file = cache / f"{name}.pt" if cache else None
    if file and file.exists():
        model.load_state_dict(torch.load(file, weights_only=True))
    else:
        train(model)
        if file:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.save(model.state_dict(), file)
    return model.eval().requires_grad_(False)


def main() -> None:
    """Train everything and save the pipeline in half precision."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the pipeline")
    parser.add_argument("--cache", type=Path, help="keep finished stages here and reuse them")
    parser.add_argument("--prompts", type=int, default=60_000, help="number of wordings")
    parser.add_argument("--text-steps", type=int, default=900)
    parser.add_argument("--autoencoder-steps", type=int, default=2400)
    parser.add_argument("--unet-steps", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    pictures, labels = load_pictures()
    tokenizer, prompts = build_prompts(args.prompts, args.seed)

    def fit_text(encoders: TextEncoders) -> None:
        train_text(encoders, tokenizer, prompts, args.text_steps)

    def fit_autoencoder(vae: AutoencoderKL) -> None:
        train_autoencoder(vae, pictures, args.autoencoder_steps)

    def fit_unet(unet: UNet2DConditionModel) -> None:
        empty = tokenize(tokenizer, [""])
        train_unet(unet, latents, labels, encoders, prompts, empty, args.unet_steps)

    seed, cache = args.seed, args.cache
    encoders = finish(cache, "text", seed + 1, lambda: TextEncoders(len(tokenizer)), fit_text)
    vae = finish(cache, "autoencoder", seed + 2, build_autoencoder, fit_autoencoder)
    latents = encode_pictures(vae, pictures)
    unet = finish(cache, "unet", seed + 3, build_unet, fit_unet)
    scheduler = DDIMScheduler(
        1000,
        beta_schedule="squaredcos_cap_v2",
        clip_sample=False,
        set_alpha_to_one=True,
        steps_offset=1,
        timestep_spacing="leading",
    )
    pipeline = StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=encoders.first,
        text_encoder_2=encoders.second,
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        unet=unet,
        scheduler=scheduler,
        force_zeros_for_empty_prompt=False,
        add_watermarker=False,
    )
    pipeline.to(torch.float16).save_pretrained(args.out)
    for file in args.out.rglob("*.safetensors"):
        file.chmod(0o644)


if __name__ == "__main__":
    main()
