"""A loaded classifier: texts or pairs in, probabilities, scores, spans or logits out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.contracts.errors import InvalidInput, InvalidModelOutput
from jumar.reporting.readings import Head, shown
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.checkpoint import model_and_tokenizer
from jumar.runtime.families.classifier.heads import head_of, reduced, values
from jumar.runtime.families.classifier.inputs import BESIDE
from jumar.runtime.families.classifier.spans import spans, words
from jumar.runtime.families.cores import Cores
from jumar.runtime.families.encoder.batches import batches
from jumar.runtime.families.encoder.model import (
    FORWARD,
    FORWARD_ELSEWHERE,
    MOST_TEXTS,
    MOST_TOKENS,
    longest_of,
)
from jumar.runtime.families.precision import dtype_for
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np

_USUAL_OVERLAP = 64
"""Tokens that two windows share, where nobody says; at most a quarter of a window."""

_CUT = {"reranking": "only_second", "entailment": "only_first", "decisions": "only_first"}
"""Which of two texts is cut where they are too long: never a query, and never a hypothesis. Of
other pairs the longer one."""
_WHOLE = {"only_second": 0, "only_first": 1}
"""The place of the other, which is never cut."""


class ClassifierModel:
    """A tokenizer, a model of transformers with a head, and what the head says.

    `longest` is the longest text in tokens, with what stands beside it.
    """

    def __init__(self, plan: LoadPlan) -> None:
        import transformers

        folder = plan.weights["model"]
        kind, self.head = head_of(folder, plan.task)
        # fp32 on every device: a threshold was chosen by numbers computed elsewhere.
        self.dtype = dtype_for(plan.config.get("dtype"), plan.placement, usual="fp32")
        self._model, tokenizer = model_and_tokenizer(
            getattr(transformers, kind), folder, self.dtype, plan.placement
        )
        # As for encoders: a graph for each shape of a batch would take minutes to make.
        replace(plan.backend, unasked=False).wrap_module(self._model, "classifier")
        self._cores = Cores(self._model)
        self._padding = tokenizer.pad_token_id or 0
        self._types = "token_type_ids" in tokenizer.model_input_names
        self._tokenizer: Any = tokenizer.backend_tokenizer
        self._tokenizer.no_padding()
        self.longest = longest_of(tokenizer.model_max_length, self._model)
        self._forward = FORWARD if plan.placement.device.kind == "cpu" else FORWARD_ELSEWHERE

    def generate(self, run: Run) -> list[Draft]:
        """The results as one JSON document."""
        return [document(self.head_for(run.request.task), self.encode(run))]

    def head_for(self, task: str) -> Head:
        """What the values for a task are."""
        return self.head

    def encode(self, run: Run) -> Any:
        """One value for each text: float32 [n, labels], or a list of spans for a token head.

        Raises:
            InvalidInput: a text over the limit, where `overflow` is `reject`; what stands beside a
                text leaves no room for it.
            InvalidModelOutput: NaN or infinity.
        """
        run.config["dtype"] = self.dtype
        texts: list[str] = run.inputs["texts"]
        head = self.head_for(run.request.task)
        with run.stage("tokenize"):
            windows = self._windows(texts, run)
        with run.stage("encode"):
            flat = [window for each in windows for window in each]
            numbers = self._numbers(flat, head, run)
        found, at = [], 0
        for text, each in zip(texts, windows, strict=True):
            here = numbers[at : at + len(each)]
            at += len(each)
            found.append(_value(head, text, each, here))
        return found if self.head.kind == "token" else _stacked(found)

    def close(self) -> None:
        """Drop the model."""
        del self._model

    def _windows(self, texts: Sequence[str], run: Run) -> list[list[Any]]:
        """The encodings of each text: one, or several where it is read in windows."""
        overflow, limit = run.config["overflow"], run.config["max_tokens"] or self.longest
        beside = run.inputs.get(BESIDE[run.request.task])
        size, overlap = min(limit, self.longest), 0
        if overflow == "window":
            size = min(size, run.config["window_tokens"] or size)
            overlap = run.config["window_overlap"]
            overlap = min(_USUAL_OVERLAP, size // 4) if overlap is None else min(overlap, size // 2)
        pairs = texts if beside is None else _paired(texts, beside, run.request.task)
        self._tokenizer.no_truncation()
        windows = [[each] for each in self._tokenizer.encode_batch(pairs)]
        over = [max(0, len(each.ids) - size) for (each,) in windows]
        cut = [place for place, count in enumerate(over) if count]
        if cut and overflow == "reject":
            raise InvalidInput(
                f"Text {cut[0]} has {over[cut[0]]} tokens more than {size}.",
                hint="overflow: window reads all of it, truncate its beginning.",
                param=f"inputs.texts.{cut[0]}",
            )
        if cut:
            strategy = _CUT.get(run.request.task, "longest_first")
            room = self._room([windows[place][0] for place in cut], size, beside, strategy)
            self._tokenizer.enable_truncation(
                size, stride=min(overlap, room // 2), strategy=strategy
            )
            for place, each in zip(
                cut, self._tokenizer.encode_batch([pairs[place] for place in cut]), strict=True
            ):
                windows[place] = [each, *each.overflowing] if overflow == "window" else [each]
        self._tell(run, windows, [0] * len(over) if overflow == "window" else over, size)
        return windows

    def _room(self, long: Sequence[Any], size: int, beside: Any, strategy: str) -> int:
        """Tokens of a text in a window of `size`: at least so many, beside what is never cut.

        Raises:
            InvalidInput: there is no room, since that fills the window.
        """
        room: int = size - self._tokenizer.num_special_tokens_to_add(is_pair=beside is not None)
        if beside is not None and strategy in _WHOLE:
            room -= max(each.sequence_ids.count(_WHOLE[strategy]) for each in long)
        elif beside is not None:
            room //= 2
        if room < 1:
            raise InvalidInput(
                f"What stands beside a text leaves it no room: {size} tokens are all there is.",
                hint="Shorten it: only the text itself is cut or read in windows.",
                param="inputs",
            )
        return room

    def _tell(self, run: Run, windows: list[list[Any]], over: list[int], size: int) -> None:
        if cut := [place for place, count in enumerate(over) if count]:
            places = ", ".join(f"{place} ({over[place]} over)" for place in cut[:10])
            run.warn(f"Cut off after {size} tokens: text {places}.")
        run.emit(
            "tokenized",
            kept=False,
            tokens=[sum(len(window.ids) for window in each) for each in windows],
            over=over,
            windows=[len(each) for each in windows],
            head=self.head_for(run.request.task).to_dict(),
        )

    def _numbers(self, windows: Sequence[Any], head: Head, run: Run) -> list[np.ndarray]:
        """What the head says of each window: float32 [labels], of a token head [tokens, labels]."""
        import numpy as np

        rows: dict[int, np.ndarray] = {}
        bounds = run.config["batch_size"] or MOST_TEXTS, run.config["batch_tokens"] or MOST_TOKENS
        lengths = [len(window.ids) for window in windows]
        for group in batches(lengths, *bounds, self._forward):
            logits = self._logits([windows[place] for place in group])
            if not np.isfinite(logits).all():
                raise InvalidModelOutput("The classifier answered with NaN or infinity.")
            rows.update(zip(group, values(head, logits), strict=True))
            run.step(len(rows), len(windows))
        return [rows[place] for place in range(len(windows))]

    def _logits(self, windows: Sequence[Any]) -> np.ndarray:
        """float32 [n, labels] or [n, tokens, labels] of one batch."""
        import torch

        width = max(len(window.ids) for window in windows)

        def column(read: str, padding: int) -> torch.Tensor:
            rows = [getattr(window, read) for window in windows]
            padded = [[*row, *[padding] * (width - len(row))] for row in rows]
            return torch.tensor(padded).to(self._model.device)

        inputs = {
            "input_ids": column("ids", self._padding),
            "attention_mask": column("attention_mask", 0),
        }
        if self._types:
            inputs["token_type_ids"] = column("type_ids", 0)
        with self._cores.for_tokens(width * len(windows)), torch.inference_mode():
            logits: np.ndarray = self._model(**inputs).logits.float().cpu().numpy()
        return logits


def _value(head: Head, text: str, windows: Sequence[Any], numbers: Sequence[np.ndarray]) -> Any:
    """What is said of a text, from what is said of its windows."""
    import numpy as np

    if head.kind != "token":
        return reduced(head, np.stack(numbers))
    pairs = zip(windows, numbers, strict=True)
    return spans(text, [words(window, each, head.labels) for window, each in pairs])


def document(head: Head, found: Sequence[Any]) -> Draft:
    """Results as a JSON file."""
    results = [{"index": place, **shown(head, value)} for place, value in enumerate(found)]
    text = json.dumps(
        {"head": head.name, "kind": head.kind, "labels": list(head.labels), "results": results},
        ensure_ascii=False,
        allow_nan=False,
    )

    def write(file: BinaryIO) -> None:
        file.write(text.encode())

    return Draft(kind="text", mime="application/json", suffix=".json", write=write, text=text)


def _stacked(rows: Sequence[np.ndarray]) -> np.ndarray:
    import numpy as np

    stacked: np.ndarray = np.stack(rows)
    return stacked


def _paired(texts: Sequence[str], beside: Sequence[str], task: str) -> list[tuple[str, str]]:
    """A query stands before its document, a text before what belongs to it or follows from it."""
    if task == "reranking":
        return list(zip(beside, texts, strict=True))
    return list(zip(texts, beside, strict=True))
