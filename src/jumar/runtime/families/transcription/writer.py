"""Whisper's decoder: features in, text and the times of its words out, greedily."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidModelOutput, InvalidValue, did_you_mean
from jumar.runtime.families.transcription.alignment import beginnings
from jumar.runtime.families.transcription.transcript import UNSPACED, Word
from jumar.runtime.families.transcription.words import words
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import torch

_POSITIONS_PER_S = 50
"""Of the encoder: 3000 mel frames in 30 s, halved by its second convolution."""


class Writer:
    """A Whisper checkpoint and its tokenizer; `begin` sets what the next windows have in common."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self._model, self._tokenizer = model, tokenizer
        self._rules = model.generation_config
        # transformers has renamed it in 5.
        names = signature(type(model).forward).parameters
        self._cache_name = "cache" if "cache" in names else "past_key_values"
        self.language = ""
        """Of the last window, as in ISO 639-1; empty before the first."""

    def begin(self, language: str | None, *, timed: bool) -> None:
        """Say which language is spoken (None: find out in each window), and if words get times.

        Raises:
            InvalidValue: the checkpoint does not have that.
        """
        if language is not None and language not in self._languages:
            raise InvalidValue(
                f"The model does not understand {language!r}.",
                hint=did_you_mean(language, self._languages),
                param="config.language",
            )
        if timed and not getattr(self._rules, "alignment_heads", None):
            raise InvalidValue(
                "This checkpoint does not say which of its heads know the time of a word.",
                hint="generation_config.json needs alignment_heads.",
                param="config.word_timestamps",
            )
        self._asked, self._timed = language, timed

    def write(
        self, features: torch.Tensor, begin: float, end: float, run: Run
    ) -> tuple[str, tuple[Word, ...]]:
        """The words of one window [1, bins, 3000] that lies from `begin` to `end` in the sound."""
        import torch

        with torch.inference_mode():
            heard = self._model.get_encoder()(features.to(self._model.device, self._model.dtype))
            if not torch.isfinite(heard.last_hidden_state).all():
                raise InvalidModelOutput(f"The encoder answered with NaN at {begin:.1f} s.")
            prompt = self._prompt(heard)
            tokens = list(self._greedy(heard, prompt, begin, run))
            text = self._decode(tokens).strip()
            if not (text and self._timed):
                return text, ()
            return text, tuple(self._words(heard, prompt, tokens, begin, end))

    @property
    def _languages(self) -> dict[str, int]:
        """Language and its token. An English checkpoint has no such tokens."""
        if not getattr(self._rules, "is_multilingual", False):
            return {"en": 0}
        return {token.strip("<|>"): number for token, number in self._rules.lang_to_id.items()}

    def _prompt(self, heard: Any) -> list[int]:
        """What stands before the text: start, language, task, and that no times are written."""
        start = self._model.config.decoder_start_token_id
        no_times = self._rules.no_timestamps_token_id
        self.language = self._asked or "en"
        if not getattr(self._rules, "is_multilingual", False):
            return [start, no_times]
        tokens = self._languages
        if self._asked is None:
            logits = self._step(heard, [start]).logits[0, -1]
            self.language = max(tokens, key=lambda one: float(logits[tokens[one]]))
        return [start, tokens[self.language], self._rules.task_to_id["transcribe"], no_times]

    def _greedy(self, heard: Any, prompt: list[int], begin: float, run: Run) -> Iterator[int]:
        """Text tokens until the model ends the text, or `max_new_tokens` are written."""
        import torch
        from transformers import DynamicCache, EncoderDecoderCache

        end, never = self._model.config.eos_token_id, self._rules.suppress_tokens or []
        room = self._model.config.max_target_positions - len(prompt)
        limit = min(run.config["max_new_tokens"] or room, room)
        shut_first = [*never, *(self._rules.begin_suppress_tokens or [])]
        given, cache = prompt, EncoderDecoderCache(DynamicCache(), DynamicCache())
        for written in range(limit):
            run.check()
            logits = self._step(heard, given, cache).logits[0, -1].float()
            if torch.isnan(logits).any():
                raise InvalidModelOutput(f"The decoder answered with NaN at {begin:.1f} s.")
            logits[shut_first if written == 0 else never] = -torch.inf
            logits[end + 1 :] = -torch.inf  # languages, tasks and times are no text
            token = int(logits.argmax())
            if token == end:
                return
            yield token
            given = [token]
        run.warn(f"The text from {begin:.1f} s was cut off after {limit} tokens.")

    def _words(
        self, heard: Any, prompt: list[int], tokens: list[int], begin: float, end: float
    ) -> Iterator[Word]:
        """Words with their times, from one more pass over the finished text.

        The position of each token looks at the place of the next one, so the row of the last token
        says when the text ends. A word ends where its closing punctuation begins: that is heard as
        the pause after it.
        """
        sure, looks = self._looked_at(heard, prompt, tokens)
        positions = max(2, round((end - begin) * _POSITIONS_PER_S))
        frames = beginnings(looks[:, len(prompt) - 1 :, :positions])
        pieces = words(tokens, self._decode, spaced=self.language not in UNSPACED)
        for text, at, spoken in pieces:
            first, last = (frames[place] / _POSITIONS_PER_S for place in (at[0], at[0] + spoken))
            yield Word(
                start=round(min(begin + first, end), 2),
                end=round(min(begin + last, end), 2),
                word=text,
                probability=round(float(sure[at].mean()), 4),
            )

    def _looked_at(self, heard: Any, prompt: list[int], tokens: list[int]) -> tuple[Any, Any]:
        """The probability of each token, float32 [n], and where the aligning heads looked while
        the prompt and the tokens were read, float32 [heads, len(prompt) + n, positions]."""
        import torch

        with _weights_shown(self._model):
            step = self._step(heard, [*prompt, *tokens], output_attentions=True)
        likely = step.logits[0, len(prompt) - 1 : -1].float().softmax(-1)
        sure = likely.gather(1, torch.tensor(tokens, device=likely.device)[:, None])[:, 0]
        heads = self._rules.alignment_heads
        looks = [step.cross_attentions[layer][0, head] for layer, head in heads]
        return sure.cpu().numpy(), torch.stack(looks).float().cpu().numpy()

    def _step(self, heard: Any, tokens: list[int], cache: Any = None, **options: Any) -> Any:
        import torch

        return self._model(
            encoder_outputs=heard,
            decoder_input_ids=torch.tensor([tokens], device=self._model.device),
            use_cache=cache is not None,
            **({} if cache is None else {self._cache_name: cache}),
            **options,
        )

    def _decode(self, tokens: list[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=True)
        return text


@contextmanager
def _weights_shown(model: Any) -> Iterator[None]:
    """Fused attention does not say where it looked; the plain one does, and is a little slower."""
    fused = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(fused)
