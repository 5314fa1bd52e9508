"""The soak's requests, each with what is the right answer to it and to no other."""

from __future__ import annotations

import base64
import io
import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.engine import load

if TYPE_CHECKING:
    import numpy as np

SHARES = {"vectors": 0.66, "speech": 0.2, "pictures": 0.1, "transcripts": 0.04}
"""Short ones mostly, as callers ask; what a model makes of each kind is known before."""

NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
COLOURS = ["red", "green", "blue", "yellow"]
NOUNS = ["rope", "anchor", "harbour", "letter", "garden"]
VERBS = ["holds", "finds", "misses", "paints", "carries"]

STEPS = 2
CLOSE = 0.9999
"""Cosine of two vectors of one text: batches of other lengths change the last bits only."""


@dataclass(frozen=True)
class Ask:
    """One request. `is_right` is given the JSON of the answer, and the content of its artifact."""

    kind: str
    model: str
    path: str
    body: dict[str, Any]
    is_right: Callable[[Any, bytes], bool]


def asks(count: int, folder: Path) -> list[Ask]:
    """`count` requests, the kinds mixed; the same ones for each run."""
    made: list[Ask] = []
    for kind, share in SHARES.items():
        distinct = KINDS[kind](folder)
        made += itertools.islice(itertools.cycle(distinct), round(count * share))
    random.Random(0).shuffle(made)
    return made[:count]


def _vectors(folder: Path) -> list[Ask]:
    model = "all-minilm-l6-v2"
    texts = [f"A {a} {v} the {b}." for a in NOUNS for v in VERBS for b in NOUNS]
    with load(model, backend="cpu") as placed:
        expected = placed.encode(texts)

    def right(vector: np.ndarray[Any, Any]) -> Callable[[Any, bytes], bool]:
        def judge(answer: Any, content: bytes) -> bool:
            import numpy as np

            (row,) = answer["data"]
            found = np.asarray(row["embedding"], np.float32)
            return float(found @ vector / np.linalg.norm(found) / np.linalg.norm(vector)) > CLOSE

        return judge

    return [
        Ask("vectors", model, "/v1/embeddings", {"model": model, "input": text}, right(vector))
        for text, vector in zip(texts, expected, strict=True)
    ]


def _speech(folder: Path) -> list[Ask]:
    prompts = [f"{a} {b}." for a in NUMBERS for b in NUMBERS[::2]]
    inputs = [{"prompt": one} for one in prompts]
    return list(_same_bytes("speech", "hibari", inputs, {"seed": 7}, folder))


def _pictures(folder: Path) -> list[Ask]:
    inputs = [{"prompt": f"a {colour} {number}"} for colour in COLOURS for number in NUMBERS[::2]]
    config = {"num_inference_steps": STEPS, "seed": 7}
    return list(_same_bytes("pictures", "sdxl-digits", inputs, config, folder))


def _same_bytes(
    kind: str, model: str, inputs: list[dict[str, Any]], config: dict[str, Any], folder: Path
) -> Iterator[Ask]:
    """Of models that give the same samples for the same request, to a rounding of the last bit."""
    with load(model, backend="cpu") as placed:
        for one in inputs:
            result = placed.generate(out=folder, **one, **config)
            expected = _samples(kind, Path(result.outputs[0].path).read_bytes())
            body = {"model": model, "inputs": one, "config": config}
            yield Ask(kind, model, "/v1/generate", body, _close(kind, expected))


def _close(kind: str, expected: np.ndarray[Any, Any]) -> Callable[[Any, bytes], bool]:
    def judge(answer: Any, content: bytes) -> bool:
        import numpy as np

        found = _samples(kind, content)
        return found.shape == expected.shape and int(np.abs(found - expected).max()) <= 2

    return judge


def _samples(kind: str, content: bytes) -> np.ndarray[Any, Any]:
    """Levels of a picture, 0 to 255, or of a sound, in steps of 1/32768."""
    import numpy as np

    samples: np.ndarray[Any, Any]
    if kind == "pictures":
        from PIL import Image

        samples = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), np.int32)
        return samples
    import soundfile

    samples = soundfile.read(io.BytesIO(content), dtype="int16")[0].astype(np.int32)
    return samples


def _transcripts(folder: Path) -> list[Ask]:
    model = "whisper-tiny.en"
    said = [
        f"The {a} {v} a {b}." for a, v, b in zip(NOUNS, VERBS * 2, NOUNS[3:] + NOUNS, strict=False)
    ]
    with load("hibari", backend="cpu") as voice:
        sounds = [
            Path(voice.generate(out=folder, prompt=one, response_format="flac").outputs[0].path)
            for one in said
        ]
    made = []
    with load(model, backend="cpu") as placed:
        for sound in sounds:
            text = placed.generate(out=folder, audio=str(sound)).outputs[0].text
            data = base64.b64encode(sound.read_bytes()).decode()
            body = {"model": model, "inputs": {"audio": f"data:audio/flac;base64,{data}"}}
            made.append(Ask("transcripts", model, "/v1/generate", body, _same_text(text)))
    return made


def _same_text(expected: str | None) -> Callable[[Any, bytes], bool]:
    return lambda answer, content: answer["outputs"][0]["text"] == expected


KINDS: dict[str, Callable[[Path], list[Ask]]] = {
    "vectors": _vectors,
    "speech": _speech,
    "pictures": _pictures,
    "transcripts": _transcripts,
}
