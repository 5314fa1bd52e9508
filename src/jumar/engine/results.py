"""Results of texts that were read before, so that the same text is not computed twice.

    look = Results(16_384).begin(encoding)
    computed = model.encode(encoding.only(look.missing).texts)
    vectors = look.completed(computed)        # all of them; those that are new are kept

A `Served` has its own, so model, revision, device and load-time config are the same for all that is
in it. It is emptied whenever a worker gets ready or fails to: what a new process, other goldens or
another quarantine would answer is not known from before. Errors are never kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from jumar.contracts.errors import InvalidInput

MOST_TOKENS = 512
"""Of a text, as far as batches are planned: most models cut off there."""

_BYTES = 4
"""Of a token, in English; what is read decides by tokens that were counted."""


@dataclass(frozen=True)
class Encoding:
    """Texts to be read, with the config of the request. `beside` are inputs with one text for each
    of the texts: the queries that documents are held against.
    """

    texts: Sequence[str]
    config: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def tokens(self) -> int:
        """About how many tokens they have."""
        lengths = map(len, self.texts)
        more = (len(text) for texts in self.beside.values() for text in texts)
        return sum(min(MOST_TOKENS, 2 + length // _BYTES) for length in (*lengths, *more))

    def only(self, places: Sequence[int]) -> Encoding:
        """The texts at these places."""
        beside = {name: [texts[at] for at in places] for name, texts in self.beside.items()}
        return replace(self, texts=[self.texts[at] for at in places], beside=beside)


@dataclass(frozen=True)
class Vectors:
    """What was read: one value for each text of an `Encoding` (numbers float32 [n, …], or spans);
    `tokens` of each, special ones included, how many were `over` the model's limit and left out,
    and in how many `windows` it was read: all empty where the model does not count. `hits` values
    were known before; `head` says what the values of a classifier are (`readings.Head`); `peak_mb`
    is the most memory that it took to compute, in MB of 10**6 bytes; `about` is what the model said
    of itself when it was loaded.
    """

    values: Sequence[Any]
    tokens: tuple[int, ...] = ()
    over: tuple[int, ...] = ()
    windows: tuple[int, ...] = ()
    hits: int = 0
    head: Mapping[str, Any] | None = None
    peak_mb: float | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


_Kept = tuple[Any, ...]
"""Value; tokens, tokens over the limit, windows: where the model counts."""


class Results:
    """At most `most` values, those asked for longest ago go first. Any thread may call."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._age = 0
        self.heads: dict[frozenset[str], Mapping[str, Any] | None] = {}  # by what stands beside
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def begin(self, encoding: Encoding) -> Look:
        """What is known of these texts now."""
        keys = [_key(encoding, at) for at in range(len(encoding.texts))] if self._most else []
        with self._lock:
            known = {at: self._kept[key] for at, key in enumerate(keys) if key in self._kept}
            for at in known:
                self._kept.move_to_end(keys[at])
            return Look(self, encoding, keys, known, self._age)

    def clear(self) -> None:
        """Forget all, also what is being computed now."""
        with self._lock:
            self._kept.clear()
            self._age += 1

    def keep(self, keys: Sequence[bytes], values: Sequence[_Kept], age: int) -> None:
        """Remember values that were asked for at this age."""
        with self._lock:
            if age != self._age:
                return
            for key, (value, *counts) in zip(keys, values, strict=True):
                self._kept[key] = (copy(value), *counts)  # a row must not keep its batch alive
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


@dataclass(frozen=True)
class Look:
    """One request's look at the results."""

    results: Results
    encoding: Encoding
    keys: Sequence[bytes]
    known: Mapping[int, _Kept]
    age: int

    @property
    def missing(self) -> list[int]:
        """Places of the texts that have to be computed."""
        return [at for at in range(len(self.encoding.texts)) if at not in self.known]

    def of_all(self, error: InvalidInput) -> InvalidInput:
        """An error about one of the missing texts, by its place among all."""
        about, _, place = (error.param or "").rpartition(".")
        if not place.isdigit() or not self.known:
            return error
        at = self.missing[int(place)]
        message = error.message.replace(f"Text {place} ", f"Text {at} ", 1)
        told = type(error)(message, hint=error.hint, param=f"{about}.{at}")
        told.__cause__ = error.__cause__
        return told

    def completed(self, computed: Vectors | None) -> Vectors:
        """All values, those of the missing texts from here; they are kept for others."""
        kind = frozenset(self.encoding.beside)
        if computed is None:
            fresh: list[_Kept] = []
        else:
            fresh = list(zip(computed.values, *_counts(computed), strict=True))
            self.results.heads[kind] = computed.head
        places = self.missing
        if self.keys:
            self.results.keep([self.keys[at] for at in places], fresh, self.age)
        if computed is not None and not self.known:
            return computed
        every = {**self.known, **dict(zip(places, fresh, strict=True))}
        rows = [every[at] for at in range(len(self.encoding.texts))]
        values, *counts = zip(*rows, strict=True)
        tokens, over, windows = counts or ((), (), ())
        peak = None if computed is None else computed.peak_mb
        head = self.results.heads[kind]
        return Vectors(values, tokens, over, windows, len(self.known), head, peak)


def _counts(computed: Vectors) -> tuple[tuple[int, ...], ...]:
    """What is counted of each text: nothing, or all three."""
    if not computed.tokens:
        return ()
    count = len(computed.values)
    return computed.tokens, computed.over or (0,) * count, computed.windows or (1,) * count


def _key(encoding: Encoding, at: int) -> bytes:
    """The content of one text, and everything of the request that can change its value."""
    beside = sorted((name, texts[at]) for name, texts in encoding.beside.items())
    said = repr((encoding.texts[at], beside, sorted(encoding.config.items())))
    return hashlib.sha256(said.encode()).digest()
