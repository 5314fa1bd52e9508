"""Where in a sound somebody speaks, and in which windows that is transcribed.

detect = Silero(path)
spans = speech(detect(samples))                 # [(0.32, 2.91), (4.93, 7.1)] seconds
windows = pack(spans, likely, 30.0)             # cut at pauses, none longer than 30 s
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.contracts.errors import InvalidModelOutput, WeightsUnavailable

if TYPE_CHECKING:
    import numpy as np

RATE = 16_000
FRAME = 512
"""Samples per frame at 16 kHz (32 ms): what Silero's graph was trained on."""

FRAME_S = FRAME / RATE
_CONTEXT = 64
_STATE = (1, 1, 128)
_BLOCK = 512

Span = tuple[float, float]


@dataclass(frozen=True)
class Rules:
    """When a row of probabilities counts as speech. Seconds, but for the thresholds.

    Speech begins above `enter` and ends below `leave`, so that it does not flicker between.
    """

    enter: float = 0.5
    leave: float = 0.35
    shortest: float = 0.25
    pause: float = 0.3
    margin: float = 0.2


BETWEEN_WORDS = Rules(shortest=0.1, pause=0.1, margin=0.0)
"""For pauses between words; the default finds those between sentences."""


class Silero:
    """Silero's voice activity detector as an ONNX graph over a sequence of frames.

    Each frame is preceded by the last 64 samples of the one before; the LSTM's state goes on from
    block to block, so that blocks make no difference to the result.
    """

    def __init__(self, graph: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            self._session = onnxruntime.InferenceSession(
                str(graph), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's errors share no other base
            raise WeightsUnavailable(f"{graph} is no ONNX graph that can be opened.") from error
        found = {given.name: given.shape for given in self._session.get_inputs()}
        frame = found.get("input", [None])[-1]
        if found.keys() != {"input", "h", "c"} or frame != _CONTEXT + FRAME:
            raise WeightsUnavailable(
                f"{graph} is not Silero's graph over sequences at 16 kHz: its inputs are {found}."
            )

    def __call__(self, samples: np.ndarray, check: Callable[[], None] | None = None) -> np.ndarray:
        """float32 [n] at 16 kHz → the probability of speech in each frame, float32 [n / 512].

        `check` is called every 16 seconds of sound; it may raise.
        """
        import numpy as np

        count = -(-len(samples) // FRAME)
        padded: np.ndarray = np.zeros(_CONTEXT + count * FRAME, np.float32)
        padded[_CONTEXT : _CONTEXT + len(samples)] = samples
        windows = np.lib.stride_tricks.sliding_window_view(padded, _CONTEXT + FRAME)[::FRAME]
        state: np.ndarray = np.zeros(_STATE, np.float32)
        hidden = cell = state
        found: list[np.ndarray] = [np.zeros(0, np.float32)]
        for first in range(0, count, _BLOCK):
            if check is not None:
                check()
            block = np.ascontiguousarray(windows[first : first + _BLOCK])
            part, hidden, cell = self._session.run(
                ["speech_probs", "hn", "cn"], {"input": block, "h": hidden, "c": cell}
            )
            found.append(part.reshape(-1))
        likely: np.ndarray = np.concatenate(found)
        if not np.isfinite(likely).all():
            raise InvalidModelOutput("The voice activity detector answered with NaN.")
        return likely


def loudness(samples: np.ndarray) -> np.ndarray:
    """Root mean square of each frame, float32 [n / 512]: says where to cut, for want of better."""
    import numpy as np

    count = -(-len(samples) // FRAME)
    padded: np.ndarray = np.zeros(count * FRAME, np.float32)
    padded[: len(samples)] = samples
    power = np.square(padded.reshape(count, FRAME)).mean(axis=1)
    root: np.ndarray = np.sqrt(power)
    return root


def speech(likely: np.ndarray, rules: Rules | None = None) -> list[Span]:
    """The stretches of speech, in order and apart, with a margin on either side."""
    rules = rules or Rules()
    end = len(likely) * FRAME_S
    spans: list[Span] = []
    for first, last in _runs(likely, rules):
        begin, stop = first * FRAME_S, last * FRAME_S
        if stop - begin < rules.shortest:
            continue
        begin, stop = max(0.0, begin - rules.margin), min(end, stop + rules.margin)
        if spans and begin <= spans[-1][1]:
            begin = spans.pop()[0]
        spans.append((begin, stop))
    return spans


def silence(likely: np.ndarray, rules: Rules) -> list[Span]:
    """What lies before, between and after the stretches of speech."""
    spans = speech(likely, rules)
    edges = [0.0, *(edge for span in spans for edge in span), len(likely) * FRAME_S]
    return [*zip(edges[::2], edges[1::2], strict=True)]


def _runs(likely: np.ndarray, rules: Rules) -> Iterator[tuple[int, int]]:
    """Frames [first, last) from crossing `enter` until below `leave` for a whole pause."""
    first: int | None = None
    quiet = 0
    patience = round(rules.pause / FRAME_S)
    for frame, value in enumerate(likely.tolist()):
        if first is None:
            if value >= rules.enter:
                first, quiet = frame, 0
        elif value >= rules.leave:
            quiet = 0
        else:
            quiet += 1
            if quiet >= patience:
                yield first, frame + 1 - quiet
                first = None
    if first is not None:
        yield first, len(likely) - quiet


def pack(
    spans: Sequence[Span], curve: np.ndarray, longest: float, pause: float = 2.0
) -> list[Span]:
    """As few windows as hold the spans, none over `longest` seconds.

    A silence of more than `pause` seconds begins a new window, for Whisper is fond of words that
    nobody said in a silence. A span that is too long is cut in its last third where `curve` (one
    value per frame) is lowest.
    """
    windows: list[Span] = []
    for begin, end in _cut(spans, curve, longest):
        if windows and end - windows[-1][0] <= longest and begin - windows[-1][1] <= pause:
            begin = windows.pop()[0]
        windows.append((begin, end))
    return windows


def _cut(spans: Sequence[Span], curve: np.ndarray, longest: float) -> Iterator[Span]:
    for begin, end in spans:
        while end - begin > longest:
            low, high = (round((begin + part) / FRAME_S) for part in (longest * 2 / 3, longest))
            at = (low + int(curve[low:high].argmin())) * FRAME_S
            yield begin, at
            begin = at
        yield begin, end
