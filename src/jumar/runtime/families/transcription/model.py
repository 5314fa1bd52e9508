"""A loaded Whisper: find the speech, write down window after window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidValue
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.checkpoint import model_and_tokenizer
from jumar.runtime.families.precision import dtype_for
from jumar.runtime.families.sound import Sound
from jumar.runtime.families.transcription.activity import (
    BETWEEN_WORDS,
    RATE,
    Silero,
    Span,
    loudness,
    pack,
    silence,
    speech,
)
from jumar.runtime.families.transcription.alignment import settled
from jumar.runtime.families.transcription.transcript import Segment, Transcript, draft
from jumar.runtime.families.transcription.writer import Writer
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np

WINDOW_S = 30.0


class Whisper:
    """Greedy, so that equal sounds give equal texts.

    Long sounds are cut where nobody speaks; each window is transcribed for itself.
    """

    def __init__(self, plan: LoadPlan) -> None:
        from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

        folder, detector = plan.weights["model"], plan.weights.get("vad")
        self.dtype = dtype_for(plan.config.get("dtype"), plan.placement)
        model, tokenizer = model_and_tokenizer(
            WhisperForConditionalGeneration,
            folder,
            self.dtype,
            plan.placement,
            attn_implementation="sdpa",
        )
        plan.backend.wrap_module(model.model.encoder, "encoder")
        plan.backend.wrap_module(model.model.decoder, "decoder")
        self._writer = Writer(model, tokenizer)
        self._features: Any = WhisperFeatureExtractor.from_pretrained(folder, local_files_only=True)
        self._detect = None if detector is None else Silero(detector)

    def generate(self, run: Run) -> list[Draft]:
        """The transcript of `audio` as `response_format`; where that is text and the times of words
        are asked for, they follow as json.

        Raises:
            InvalidValue: a language or an option that this checkpoint does not have.
            InvalidModelOutput: NaN in the model.
        """
        run.config["dtype"] = self.dtype
        sound: Sound = run.inputs["audio"]
        name, words = run.config["response_format"] or "text", bool(run.config["word_timestamps"])
        for note in sound.notes:
            run.warn(note)
        timed = words or name in ("srt", "vtt")
        self._writer.begin(run.config["language"], timed=timed)
        with run.stage("listen"):
            windows, pauses = self._windows(sound, run)
        with run.stage("transcribe"):
            segments: list[Segment] = []
            for done, window in enumerate(windows, 1):
                segments += self._segment(sound, window, pauses, run)
                run.step(done, len(windows), until_s=round(window[1], 2))
        transcript = Transcript(self._writer.language, sound.duration_s, tuple(segments))
        if timed:
            transcript = transcript.captions()
        names = [name, "json"] if words and name == "text" else [name]
        return [draft(transcript, each) for each in names]

    def close(self) -> None:
        """Drop the model."""
        del self._writer, self._detect

    def _windows(self, sound: Sound, run: Run) -> tuple[list[Span], list[Span]]:
        """What is transcribed at once; and the pauses between words, where those are known."""
        wanted = run.config["vad"]
        if wanted is False or (wanted is None and self._detect is None):
            return pack([(0.0, sound.duration_s)], loudness(sound.samples), WINDOW_S), []
        if self._detect is None:
            raise InvalidValue(
                "This model comes without a voice activity detector.",
                hint="Set vad=false.",
                param="config.vad",
            )
        likely = self._detect(sound.samples, run.check)
        spans = speech(likely)
        if not spans:
            run.warn(f"Nobody speaks in these {sound.duration_s:.1f} seconds of sound.")
        return pack(spans, likely, WINDOW_S), silence(likely, BETWEEN_WORDS)

    def _segment(self, sound: Sound, window: Span, pauses: list[Span], run: Run) -> list[Segment]:
        """What is said in a window; empty where the model hears no words in it."""
        begin, end = round(window[0], 3), round(min(window[1], sound.duration_s), 3)
        samples = sound.samples[round(begin * RATE) : round(end * RATE)]
        text, words = self._writer.write(self._heard(samples), begin, end, run)
        if not text:
            return []
        within = [pause for pause in pauses if pause[1] > begin and pause[0] < end]
        return [Segment(begin, end, text, tuple(settled(words, within)) if words else ())]

    def _heard(self, samples: np.ndarray) -> Any:
        """float32 [n] at 16 kHz, at most 30 s → log-mel features, float32 [1, bins, 3000]."""
        return self._features(samples, sampling_rate=RATE, return_tensors="pt").input_features
