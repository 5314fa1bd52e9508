"""Whether a model's answer is the one that was recorded: a tolerance for each quantity.

    apart(Answer("vector", v), Answer("vector", w), rounding="bf16")    # None, or an Apart

A quantity has a measure of its own: one number for "how far", which does not grow with the size of
the answer, and limits for it. What is written in words, labels, offsets and counts is equal or it
is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from jumar.contracts.errors import InvalidValue, did_you_mean

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]

ROUNDINGS = ("cpu", "fp32", "fp16", "bf16")
"""Where an answer's rounding comes from: the same kind of CPU, or an accelerator in a format."""


@dataclass(frozen=True)
class Quantity:
    """A kind of answer: what is measured, in which unit, and the limit for each rounding.

    `measure(wanted, got)` gives a number; None in `limits` stands for "equal or not".
    """

    what: str
    measure: Callable[[Any, Any], float]
    limits: tuple[float, float, float, float] | None = None

    def limit(self, rounding: str) -> float:
        """The largest legal distance."""
        return 0.0 if self.limits is None else self.limits[ROUNDINGS.index(rounding)]


@dataclass(frozen=True)
class Answer:
    """One thing a model said. `value` is a float64 array, or text.

    `margin` belongs to a label: how far the second most probable label was behind it.
    """

    quantity: str
    value: Any
    margin: float | None = None

    def __post_init__(self) -> None:
        if self.quantity not in QUANTITIES:
            raise InvalidValue(
                f"There is no quantity {self.quantity!r}.",
                hint=did_you_mean(self.quantity, QUANTITIES),
            )

    @property
    def is_text(self) -> bool:
        """True where it is stored as words."""
        return isinstance(self.value, str)


@dataclass(frozen=True)
class Apart:
    """Two answers that are not the same: how far apart, how far they might be, and in words."""

    distance: float
    limit: float
    reason: str


def distance(wanted: Answer, got: Answer) -> float:
    """How far apart two answers are, in the unit of their quantity; inf where it has no meaning."""
    if wanted.quantity != got.quantity or wanted.is_text != got.is_text:
        return float("inf")
    return QUANTITIES[wanted.quantity].measure(wanted.value, got.value)


def apart(wanted: Answer, got: Answer, *, rounding: str) -> Apart | None:
    """What is wrong with `got`; None where it is `wanted` but for rounding.

    A label may differ where the recorded one led by less than twice the limit of a probability:
    legal rounding of both can turn such a pair over.
    """
    if wanted.quantity != got.quantity:
        return Apart(float("inf"), 0.0, f"it is a {got.quantity}, not a {wanted.quantity}")
    kind = QUANTITIES[wanted.quantity]
    far, limit = distance(wanted, got), kind.limit(rounding)
    if far <= limit or _close_race(wanted, rounding):
        return None
    if kind.limits is None:
        return Apart(far, limit, f"{got.value!r}, not {wanted.value!r}"[:300])
    return Apart(far, limit, f"{kind.what} {far:.3g}, over the limit of {limit:g}")


def _close_race(wanted: Answer, rounding: str) -> bool:
    if wanted.quantity != "label" or wanted.margin is None:
        return False
    return wanted.margin < 2 * QUANTITIES["probability"].limit(rounding)


# ---- measures -----------------------------------------------------------------------------------


def _unequal(wanted: Any, got: Any) -> float:
    import numpy as np

    return 0.0 if np.array_equal(wanted, got) else float("inf")


def _numbers(measure: Callable[[Array, Array], float]) -> Callable[[Any, Any], float]:
    """Guard a measure of arrays: other shapes, NaN and infinity are infinitely far."""

    def guarded(wanted: Any, got: Any) -> float:
        import numpy as np

        left, right = np.asarray(wanted, np.float64), np.asarray(got, np.float64)
        if left.shape != right.shape or not (np.isfinite(left).all() and np.isfinite(right).all()):
            return float("inf")
        return float(measure(left, right)) if left.size else 0.0

    return guarded


def _of_length(wanted: Array, got: Array) -> float:
    """||w - g|| / ||w||."""
    import numpy as np

    scale = float(np.linalg.norm(wanted))
    off = float(np.linalg.norm(wanted - got))
    return off / scale if scale else (0.0 if off == 0.0 else float("inf"))


def _absolute(wanted: Array, got: Array) -> float:
    import numpy as np

    return float(np.abs(wanted - got).max())


def _of_largest(wanted: Array, got: Array) -> float:
    """The largest difference over the largest number, or over 1 where all are smaller."""
    import numpy as np

    return float(np.abs(wanted - got).max() / max(1.0, float(np.abs(wanted).max())))


def _levels(wanted: Array, got: Array) -> float:
    """Mean difference in levels of 255; blocks of 8 x 8 count by their mean, an eighth as strict.

    A picture [h, w, 3] may differ a little everywhere (rounding), not much in one place (a fault).
    """
    import numpy as np

    off = np.abs(wanted - got)
    if off.ndim != 3:
        return float(off.mean())
    height, width = (max(size // 8 * 8, 0) for size in off.shape[:2])
    if not (height and width):
        return float(off.mean())
    blocks = off[:height, :width].reshape(height // 8, 8, width // 8, 8, -1).mean(axis=(1, 3, 4))
    return float(max(off.mean(), blocks.max() / 8))


def _spectral(wanted: Array, got: Array) -> float:
    """Spectral convergence || |W| - |G| || / || |W| || of two sounds (Arik et al. 2018, eq. 2).

    Magnitudes of frames of 1024 samples, 256 apart, Hann window: what one hears, not the phase.
    """
    return _of_length(_spectrum(wanted), _spectrum(got))


def _spectrum(sound: Array) -> Array:
    import numpy as np

    padded = np.pad(sound, (0, max(0, 1024 - len(sound))))
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256]
    spectrum: Array = np.abs(np.fft.rfft(frames * np.hanning(1024)))
    return spectrum


QUANTITIES: dict[str, Quantity] = {
    "vector": Quantity("relative distance", _numbers(_of_length), (1e-5, 1e-3, 5e-3, 3e-2)),
    "cosine": Quantity("difference", _numbers(_absolute), (1e-5, 1e-3, 5e-3, 2e-2)),
    "probability": Quantity("difference", _numbers(_absolute), (1e-5, 1e-3, 5e-3, 2e-2)),
    "logit": Quantity("difference", _numbers(_of_largest), (1e-5, 1e-3, 5e-3, 2e-2)),
    "statistic": Quantity("difference", _numbers(_of_largest), (1e-5, 1e-3, 1e-2, 5e-2)),
    "picture": Quantity("levels", _numbers(_levels), (0.1, 1.0, 2.0, 6.0)),
    "sound": Quantity("spectral convergence", _numbers(_spectral), (1e-3, 1e-2, 5e-2, 1e-1)),
    "words": Quantity("words", _unequal),
    "label": Quantity("label", _unequal),
    "span": Quantity("offsets", _unequal),
    "count": Quantity("count", _unequal),
}
"""The limits are ours. For CPUs they are what two machines differed by, with room; for 16 bits they
follow the format's rounding over some ten layers: 2^-11 = 5e-4 (fp16), 2^-8 = 4e-3 (bf16). A
published record of an encoder on a 910B1 differed from the CPU by 2.2e-4 and, at worst, 1.3e-2 in a
probability (vllm-project/semantic-router, npu-parity-ascend910b1)."""
