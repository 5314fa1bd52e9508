"""Trials that a bisection needs among 400 operators, beside QuickXplain as published.

    python -m benchmarks bisect

Controls are excluded on both sides; both have to end knowing that nothing else is guilty. With
`JUMAR_EMULATE_NPU=1` also the seconds that it takes to find a wrong and a hanging operator of
MiniLM on the emulated NPU.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from statistics import mean

from jumar.evidence import Verdict
from jumar.lab.bisect import bisect
from jumar.operators.base import Override, Overrides

OPERATORS = [Override(f"aten::op{number:03}", "device") for number in range(400)]
ROUNDS = 1000
CASES = {
    "one culprit": lambda draw: [draw(1)],
    "two culprits": lambda draw: [draw(1), draw(1)],
    "three culprits": lambda draw: [draw(1), draw(1), draw(1)],
    "a pair that only fails together": lambda draw: [draw(2)],
    "three that only fail together": lambda draw: [draw(3)],
}


def main() -> None:
    """Print the table."""
    titles = f"{'ours max':>10}{'mean':>8}{'QuickXplain max':>18}{'mean':>8}"
    print(f"\n{f'(trials, {ROUNDS} rounds)':<34}{titles}")
    for name, case in CASES.items():
        draw = partial(_drawn, random.Random(0))  # the same rounds for all cases
        ours, peer = [], []
        for _ in range(ROUNDS):
            guilty = case(draw)
            ours.append(_ours(guilty))
            peer.append(_published(guilty))
        numbers = f"{max(ours):>10}{mean(ours):>8.1f}{max(peer):>18}{mean(peer):>8.1f}"
        print(f"{name:<34}{numbers}")
    if os.environ.get("JUMAR_EMULATE_NPU"):
        _model()


def _drawn(generator: random.Random, count: int) -> frozenset[int]:
    return frozenset(generator.sample(range(400), count))


def _ours(guilty: Sequence[frozenset[int]]) -> int:
    sets = [frozenset(OPERATORS[number] for number in one) for one in guilty]

    def check(on: Overrides) -> Verdict:
        return Verdict("wrong" if any(one <= on for one in sets) else "correct")

    found = bisect(check, OPERATORS)
    assert set(found.sets) == set(sets)
    return found.trials


def _published(guilty: Sequence[frozenset[int]]) -> int:
    """Junker's recursion, once for each set, and a trial of the rest after each."""
    tried: dict[frozenset[int], bool] = {frozenset(range(400)): True}

    def fails(on: Sequence[int]) -> bool:
        known = frozenset(on)
        if known not in tried:
            tried[known] = any(one <= known for one in guilty)
        return tried[known]

    rest = list(range(400))
    while fails(rest):
        found = _quickxplain(fails, [], [], rest)
        rest = [one for one in rest if one not in found]
    return len(tried) - 1


def _quickxplain(
    fails: Callable[[Sequence[int]], bool],
    background: list[int],
    added: list[int],
    candidates: list[int],
) -> list[int]:
    if added and fails(background):
        return []
    if len(candidates) == 1:
        return candidates
    half = len(candidates) // 2
    first, second = candidates[:half], candidates[half:]
    late = _quickxplain(fails, [*background, *first], first, second)
    early = _quickxplain(fails, [*background, *late], late, first)
    return [*early, *late]


def _model() -> None:
    print(f"\n{'(MiniLM on the emulated NPU)':<34}{'seconds':>10}")
    for kind in ("wrong", "hang"):
        with tempfile.TemporaryDirectory() as folder:
            line = f"bisect -m all-minilm-l6-v2 -d npu:0 --time-limit 5 --evidence {folder}"
            begun = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-m", "jumar", *line.split()],
                env={**os.environ, "JUMAR_EMULATE_FAULTS": f"[{{op: gelu, kind: {kind}}}]"},
                capture_output=True,
                text=True,
                check=False,
            )
            seconds = time.monotonic() - begun
        assert "guilty: aten::gelu by device" in done.stdout, done.stdout + done.stderr
        print(f"{f'gelu: {kind}':<34}{seconds:>10.1f}")
