"""A loaded model answering through Jumar, beside the bare library doing the same work.

Both sides load the same files, do the same computation and write the same kind of file.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import jumar
from benchmarks.measure import HEADER, in_turn

SENTENCE = (
    "The climber put a jumar on the rope, and from then on she could only go up. "
    "When night fell she was still hanging under the roof, and the valley was full of lights."
)
TEXTS = [SENTENCE[start : start + 40 + 3 * start] for start in range(32)]


def speech() -> None:
    """hibari, from text to a WAV file."""
    import soundfile
    from hibari import Hibari

    from jumar.catalog import get
    from jumar.runtime.weights import ensure_all

    print(f"\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder, jumar.load("hibari") as ours:
        weights = ensure_all(get("hibari"))
        bare = Hibari(model=str(weights["model"] / "hibari.onnx"))

        def peer() -> None:
            soundfile.write(f"{folder}/bare.wav", bare(SENTENCE, seed=1), 24_000, subtype="PCM_16")

        print(
            in_turn(
                "hibari: two sentences to a WAV",
                lambda: ours.generate(prompt=SENTENCE, seed=1, out=folder),
                peer,
            ).row()
        )


def transcription() -> None:
    """whisper-tiny.en, from a WAV file to text."""
    import soundfile
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    from jumar.catalog import get
    from jumar.runtime.families import family_of
    from jumar.runtime.weights import ensure_all

    print(f"\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder:
        with jumar.load("hibari") as voice:
            sound = voice.generate(prompt=SENTENCE, seed=1, sample_rate=16_000, out=folder)
        wav = sound.outputs[0].path
        with jumar.load("whisper-tiny.en") as ours:
            manifest = get("whisper-tiny.en")
            converters = family_of(manifest).converters
            files = ensure_all(manifest, converters=converters)["model"]
            processor = WhisperProcessor.from_pretrained(files)
            bare = WhisperForConditionalGeneration.from_pretrained(files, dtype="float32").eval()

            def peer() -> None:
                samples, rate = soundfile.read(wav, dtype="float32")
                features = processor(samples, sampling_rate=rate, return_tensors="pt")
                tokens = bare.generate(features.input_features)
                text = processor.batch_decode(tokens, skip_special_tokens=True)[0]
                Path(folder, "bare.txt").write_text(text)

            print(
                in_turn(
                    "whisper-tiny.en: that sound to text",
                    lambda: ours.generate(audio=wav, vad=False, out=folder),
                    peer,
                ).row()
            )


def picture() -> None:
    """sdxl-digits, from a prompt to a PNG."""
    import torch
    from diffusers import StableDiffusionXLPipeline

    from jumar.catalog import get
    from jumar.runtime.weights import ensure_all

    print(f"\n{HEADER}")
    with tempfile.TemporaryDirectory() as folder, jumar.load("sdxl-digits") as ours:
        files = ensure_all(get("sdxl-digits"))["model"]
        bare = StableDiffusionXLPipeline.from_pretrained(files, torch_dtype=torch.float32)
        bare.set_progress_bar_config(disable=True)

        def peer() -> None:
            image = bare(
                "a red seven",
                num_inference_steps=10,
                guidance_scale=3.0,
                width=32,
                height=32,
                generator=torch.Generator("cpu").manual_seed(1),
            ).images[0]
            image.save(f"{folder}/bare.png")

        print(
            in_turn(
                "sdxl-digits: 10 steps to a PNG",
                lambda: ours.generate(
                    prompt="a red seven",
                    num_inference_steps=10,
                    guidance_scale=3.0,
                    width=32,
                    height=32,
                    seed=1,
                    out=folder,
                ),
                peer,
            ).row()
        )


def embed() -> None:
    """all-minilm-l6-v2, one text and 32 texts, to vectors in memory."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from jumar.catalog import get
    from jumar.runtime.weights import ensure_all

    print(f"\n{HEADER}")
    files = ensure_all(get("all-minilm-l6-v2"))["model"]
    tokenizer = AutoTokenizer.from_pretrained(files)
    bare = AutoModel.from_pretrained(files, dtype=torch.float32).eval()

    def vectors(texts: list[str]) -> np.ndarray:
        tokens = tokenizer(
            texts, padding=True, truncation=True, max_length=256, return_tensors="pt"
        )
        with torch.inference_mode():
            states = bare(**tokens).last_hidden_state
            mask = tokens["attention_mask"][..., None].float()
            pooled = (states * mask).sum(1) / mask.sum(1)
            return torch.nn.functional.normalize(pooled, dim=-1).numpy()

    with jumar.load("all-minilm-l6-v2") as ours:
        for texts in (TEXTS[:1], TEXTS):
            name = f"all-minilm-l6-v2: {len(texts)} text{'s' if len(texts) > 1 else ''}"
            print(
                in_turn(
                    name,
                    lambda texts=texts: ours.encode(texts),
                    lambda texts=texts: vectors(texts),
                    pairs=40,
                ).row()
            )


SECTIONS = {
    "speech": speech,
    "transcription": transcription,
    "picture": picture,
    "embed": embed,
}
