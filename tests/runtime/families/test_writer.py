"""Greedy decoding against transformers' own, on tiny random checkpoints."""

from __future__ import annotations

from typing import Any

import pytest

from jumar.contracts.errors import InvalidValue
from jumar.runtime.families.transcription.writer import Writer

torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_checkpoints")
pytestmark = pytest.mark.usefixtures("few_threads")

LENGTH = 12


class Quiet:
    """A run that nobody listens to."""

    def __init__(self, limit: int | None = LENGTH) -> None:
        self.config, self.warnings = {"max_new_tokens": limit}, []

    def check(self) -> None: ...

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def checkpoint(*, several: bool, seed: int = 0) -> Any:
    """A random Whisper with all that a real one's generation_config has."""
    tokenizer = tiny.whisper_tokenizer()
    model = tiny.whisper(seed)
    rules = model.generation_config
    rules.suppress_tokens, rules.begin_suppress_tokens = [1, 2, 30], [40]
    rules.no_timestamps_token_id = tokenizer.token_to_id("<|notimestamps|>")
    rules.is_multilingual = several
    rules.alignment_heads = [[0, 0], [1, 0]]
    if several:
        rules.lang_to_id = {
            f"<|{each}|>": tokenizer.token_to_id(f"<|{each}|>") for each in ("en", "de")
        }
        rules.task_to_id = {
            each: tokenizer.token_to_id(f"<|{each}|>") for each in ("transcribe", "translate")
        }
    # Tokens beyond the end are never text; transformers would let a random model write them.
    end = model.config.eos_token_id
    with torch.no_grad():
        model.proj_out.weight[end + 1 :] *= 0.1
    return model


def features(seed: int) -> Any:
    return torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(seed))


class Spelled:
    """A tokenizer that shows the numbers."""

    def decode(self, tokens: list[int], skip_special_tokens: bool) -> str:
        return "".join(f" {token}" for token in tokens)


def written(model: Any, sound: Any, language: str | None) -> tuple[Writer, list[int]]:
    writer = Writer(model, Spelled())
    writer.begin(language, timed=False)
    text, _ = writer.write(sound, 0.0, 30.0, Quiet())
    return writer, [int(token) for token in text.split()]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("several", [False, True])
def test_the_tokens_are_those_of_transformers(seed: int, several: bool) -> None:
    model, sound = checkpoint(several=several, seed=seed), features(seed)
    options = {"language": "de", "task": "transcribe"} if several else {}
    with torch.inference_mode():
        wanted = model.generate(
            sound, do_sample=False, num_beams=1, max_new_tokens=LENGTH, **options
        )
    _, tokens = written(model, sound, "de" if several else "en")
    end = model.config.eos_token_id
    assert tokens == [token for token in wanted[0].tolist() if token < end]
    assert tokens


@pytest.mark.parametrize("seed", range(4))
def test_a_language_that_nobody_names_is_found_out(seed: int) -> None:
    model, sound = checkpoint(several=True, seed=seed), features(seed)
    with torch.inference_mode():
        token = int(model.detect_language(sound, generation_config=model.generation_config)[0])
    names = {
        number: name.strip("<|>") for name, number in model.generation_config.lang_to_id.items()
    }
    writer, _ = written(model, sound, None)
    assert writer.language == names[token]


def test_a_language_that_the_checkpoint_lacks_is_refused() -> None:
    for several, known in ((True, "de, en"), (False, "en")):
        writer = Writer(checkpoint(several=several), Spelled())
        with pytest.raises(InvalidValue, match="does not understand 'dd'") as refused:
            writer.begin("dd", timed=False)
        assert known in str(refused.value.hint)


def test_word_times_need_heads_that_know_them() -> None:
    model = checkpoint(several=False)
    model.generation_config.alignment_heads = None
    with pytest.raises(InvalidValue, match="which of its heads") as refused:
        Writer(model, Spelled()).begin("en", timed=True)
    assert "alignment_heads" in str(refused.value.hint)


def test_every_token_gets_a_word_a_time_and_a_probability() -> None:
    writer = Writer(checkpoint(several=False), Spelled())
    writer.begin("en", timed=True)
    text, words = writer.write(features(0), 100.0, 104.0, Quiet())
    assert [word.word for word in words] == text.split()
    edges = [edge for word in words for edge in (word.start, word.end)]
    assert edges == sorted(edges)
    assert edges[0] >= 100.0
    assert edges[-1] <= 104.0
    assert all(0 <= word.probability <= 1 for word in words)


def test_a_text_never_outgrows_the_models_positions() -> None:
    run = Quiet(limit=None)
    writer = Writer(checkpoint(several=False), Spelled())
    writer.begin("en", timed=False)
    text, _ = writer.write(features(0), 0.0, 30.0, run)
    assert len(text.split()) <= 46
    if len(text.split()) == 46:
        assert run.warnings == ["The text from 0.0 s was cut off after 46 tokens."]
