"""A loaded voice: sentences in, sound out, one sentence at a time."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidInput, InvalidModelOutput, WeightsUnavailable
from jumar.runtime.families.base import Draft
from jumar.runtime.families.sound import encode, pcm16, resample
from jumar.runtime.families.speech.text import LONGEST_WORD, in_parts, named, silent, whole
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np

RATE = 24_000
"""Samples per second of every hibari voice."""

FORMAT = "wav"
"""Of the file, where nobody says."""

LONGEST_PIECE = 400
"""Phonemes that are spoken at once, hibari's own MAX_PHONEMES: the graph's time and memory grow
with the square, and hibari cuts at commas only."""

QUIETEST = 1e-3
"""Speech has a higher peak than this (-60 dB); what stays below is no speech."""


class Voice:
    """hibari with a graph of Jumar's choosing.

    One thread: a sentence takes a hundredth of its length, and the sum's order never changes.
    """

    def __init__(self, graph: Path) -> None:
        from hibari import Hibari

        try:
            self._hibari: Any = Hibari(model=str(graph), threads=1)
        except Exception as error:  # onnxruntime's errors share no other base
            raise WeightsUnavailable(f"{graph} is no ONNX graph that can be opened.") from error
        names = {given.name for given in self._hibari.sess.get_inputs()}
        if names != {"ids", "speed"}:
            raise WeightsUnavailable(f"{graph} is no hibari voice: its inputs are {sorted(names)}.")
        self._hibari.g2p  # noqa: B018  read the tables now, not in the first request

    def generate(self, run: Run) -> list[Draft]:
        """Say `prompt`; mono float32 at 24 kHz, or at `sample_rate` where that is asked for.

        Raises:
            InvalidInput: a word that the reader has no sound for.
            InvalidModelOutput: the voice made NaN or silence.
        """
        import numpy as np

        config = run.config
        if config["seed"] is None:
            config["seed"] = secrets.randbelow(2**31)
        with run.stage("read"):
            pieces = list(self._read(run))
        with run.stage("speak"):
            noise = np.random.default_rng(config["seed"])
            samples = np.concatenate(list(self._speak(pieces, noise, run)))
        rate = config["sample_rate"] or RATE
        if rate != RATE:
            with run.stage("resample"):
                samples = resample(samples, RATE, rate)
        return [encode(samples, rate, config["response_format"] or FORMAT)]

    def close(self) -> None:
        """Drop the graph and the tables."""
        self._hibari = None

    def _read(self, run: Run) -> Iterator[str]:
        """Phonemes, in pieces that are spoken at once."""
        prompt, cut = in_parts(run.inputs["prompt"], self._knows)
        if cut:
            run.warn(f"Words of over {LONGEST_WORD} letters were read in parts: {_list(cut)}.")
        sentences = self._hibari.split_sentences(prompt)
        sounds = lru_cache(maxsize=4096)(self._sounds)
        unheard: dict[str, None] = {}
        for done, written in enumerate(sentences, 1):
            sentence, lost = whole(written, sounds)
            if lost:
                raise InvalidInput(
                    f"The voice has no sound for {_list(lost)}.",
                    hint="Write it in another way.",
                    param="inputs.prompt",
                )
            for phonemes in self._hibari.phonemize(sentence):
                yield from _short(phonemes)
            unheard.update(dict.fromkeys(silent(sentence, sounds)))
            run.step(done, len(sentences))
        if unheard:
            run.warn(f"Symbols that have no sound were left out: {named([*unheard])}")

    def _speak(self, pieces: list[str], noise: np.random.Generator, run: Run) -> Iterator[Any]:
        """float32 [n] per piece; the noise goes on from piece to piece, as in hibari itself.

        With `stream` each is also an event `sound`: its number, its rate, and 16-bit samples.
        """
        import numpy as np

        speed = run.config["speed"] or 1.0
        for done, phonemes in enumerate(pieces, 1):
            samples = self._hibari.from_ids(self._hibari.ids(phonemes), speed, noise)
            if not np.isfinite(samples).all():
                raise InvalidModelOutput("The voice made samples that are NaN or infinite.")
            if any(c.isalpha() for c in phonemes) and np.abs(samples).max(initial=0) < QUIETEST:
                raise InvalidModelOutput(f"The voice made silence of {_brief(phonemes)!r}.")
            if run.config["stream"]:
                data = base64.b64encode(pcm16(samples).astype("<i2").tobytes()).decode()
                run.emit("sound", kept=False, number=done, rate=RATE, pcm=data)
            yield samples
            run.step(done, len(pieces), seconds=round(len(samples) / RATE, 3))

    def _sounds(self, sentence: str) -> str:
        """Phonemes without the spaces between them."""
        return "".join("".join(self._hibari.phonemize(sentence)).split())

    def _knows(self, word: str) -> bool:
        return bool(self._hibari.g2p.lexicon.is_known(word.lower(), None))


def _short(phonemes: str) -> Iterator[str]:
    """Cut at the last space before the limit; the limit itself where there is none."""
    while len(phonemes) > LONGEST_PIECE:
        at = phonemes.rfind(" ", 1, LONGEST_PIECE) + 1 or LONGEST_PIECE
        yield phonemes[:at]
        phonemes = phonemes[at:]
    if phonemes:
        yield phonemes


def _list(words: list[str]) -> str:
    return ", ".join(repr(_brief(word)) for word in words[:5]) + (", …" if len(words) > 5 else "")


def _brief(words: str) -> str:
    return words if len(words) <= 40 else f"{words[:39]}…"
