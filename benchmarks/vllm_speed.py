"""Serving with vLLM on Jumar's platform: beside a minimal platform, and beside Hugging Face.

    python -m benchmarks.vllm_speed tiny       # random Qwen3, 1 and 32 callers
    python -m benchmarks.vllm_speed smollm2    # answers of 8 to 256 tokens
    python -m benchmarks.vllm_speed start      # `vllm serve` until it is healthy
    … tiny --peer FOLDER:PLUGIN,PLUGIN         # another platform, installed into FOLDER

Each engine is a process of its own; they are asked in turn, in the same run, and one waits while
the other computes. Tokens of all are compared first: a faster wrong answer is none. Ratios are
tokens per second of ours through the peer's, the median over rounds, by the clock and by CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OURS = {"VLLM_PLUGINS": "jumar", "JUMAR_VLLM_DEVICE": "cpu"}
USUAL = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",  # with more, small steps take several times as long
}
Asked = list[tuple[list[int], int]]


class Engine:
    """A child of `benchmarks.vllm_child` that has loaded its model."""

    def __init__(self, name: str, kind: str, folder: Path, environ: Mapping[str, str]) -> None:
        self.name = name
        own = {**os.environ, **USUAL, "VLLM_ENABLE_V1_MULTIPROCESSING": "0", **environ}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.vllm_child", kind, str(folder)],
            cwd=ROOT, env=own, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self._line()

    def answer(self, asked: Asked) -> dict[str, Any]:
        """Seconds and tokens."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.name} ended: {self._process.wait()}")
        made: dict[str, Any] = json.loads(line)
        return made


def compared(title: str, engines: Sequence[Engine], asked: Asked, rounds: int) -> None:
    """Ask all in turn; print tokens per second of each, and the first through each other one."""
    first = [one.answer(asked)["tokens"] for one in engines]  # warms up, too
    count = sum(n for _, n in asked)
    seen: dict[str, list[tuple[float, float]]] = {one.name: [] for one in engines}
    for turn in range(rounds):
        for one in engines if turn % 2 else reversed(engines):
            made = one.answer(asked)
            seen[one.name].append((count / made["wall"], count / made["cpu"]))
    print(f"\n{title}: {count} tokens, {rounds} rounds")
    print(
        f"{'':<28}{'tokens/s':>10}{'ours/its':>10}{'per CPU s':>11}{'ours/its':>10}   same tokens"
    )
    ours = seen[engines[0].name]
    for one, tokens in zip(engines, first, strict=True):
        cells = []
        for clock in (0, 1):
            rate = statistics.median(times[clock] for times in seen[one.name])
            ratio = statistics.median(
                a[clock] / b[clock] for a, b in zip(ours, seen[one.name], strict=True)
            )
            cells += [f"{rate:.0f}", f"{ratio:.2f}"]
        same = sum(a == b for a, b in zip(first[0], tokens, strict=True))
        left, ratio, cpu, cpu_ratio = cells
        print(
            f"{one.name:<28}{left:>10}{ratio:>10}{cpu:>11}{cpu_ratio:>10}   {same} of {len(asked)}",
            flush=True,
        )


def asking(callers: int, longest: int, wanted: Callable[[random.Random], int], top: int) -> Asked:
    """Random prompts of 4 to `longest` tokens below `top`."""
    draw = random.Random(callers)
    return [
        ([draw.randrange(7, top) for _ in range(draw.randrange(4, longest))], wanted(draw))
        for _ in range(callers)
    ]


def tiny(options: argparse.Namespace, place: Path) -> None:
    """Two layers: what counts is what a step costs beside the model."""
    folder = _tiny(place)
    engines = [
        Engine("jumar", "vllm", folder, OURS),
        Engine("a minimal platform", "vllm", folder, peer(options.peer, place)),
    ]
    for callers in (32, 1):
        asked = asking(callers, 100, lambda _: 64, 480)
        compared(f"tiny Qwen3, {callers} callers", engines, asked, options.rounds)
    for one in engines:
        one.close()


def smollm2(options: argparse.Namespace, place: Path) -> None:
    """A real model whose answers are of unlike lengths."""
    from jumar import catalog
    from jumar.runtime.families import family_of
    from jumar.runtime.weights import ensure

    manifest = catalog.get("smollm2-135m")
    folder = ensure(manifest, converters=family_of(manifest).converters)
    kinds = ["static", *(["continuous"] if options.continuous else [])]
    engines = [
        Engine("jumar", "vllm", folder, OURS),
        *(Engine(f"Hugging Face, {kind}", kind, folder, {}) for kind in kinds),
    ]
    for callers in options.callers:
        asked = asking(callers, 64, lambda draw: draw.randint(8, options.longest), 40_000)
        compared(f"SmolLM2-135M, {callers} callers", engines, asked, options.rounds)
    for one in engines:
        one.close()


def start(options: argparse.Namespace, place: Path) -> None:
    """`vllm serve` on the tiny model, from its start until /health says yes."""
    from tests.vllm.serving import serve

    folder, other = _tiny(place), peer(options.peer, place)
    seen: dict[str, list[float]] = {"jumar": [], "a minimal platform": []}
    for turn in range(options.rounds):
        pair = [("jumar", OURS), ("a minimal platform", other)]
        for name, environ in pair if turn % 2 else reversed(pair):
            log = place / f"{name} {turn}.log"
            with serve(folder, log, environ={**environ, **USUAL}) as server:
                seen[name].append(server.started_s)
    ratios = [a / b for a, b in zip(*seen.values(), strict=True)]
    print(f"\nStart to healthy, {options.rounds} rounds")
    for name, times in seen.items():
        print(f"{name:<28}{statistics.median(times):>10.1f} s")
    print(f"{'ours/its':<28}{statistics.median(ratios):>10.2f}", flush=True)


def peer(given: str | None, place: Path) -> dict[str, str]:
    """The environment in which vLLM finds the peer: one that is installed, or `vllm_peer`."""
    if given is not None:
        folder, _, plugins = given.partition(":")
        return {"PYTHONPATH": os.pathsep.join((folder, str(ROOT))), "VLLM_PLUGINS": plugins}
    facts = place / "peer" / "minimal_platform-0.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: minimal-platform\nVersion: 0\n")
    (facts / "entry_points.txt").write_text(
        "[vllm.platform_plugins]\nminimal = benchmarks.vllm_peer:plugin\n"
    )
    path = os.pathsep.join((str(facts.parent), str(ROOT)))
    return {"PYTHONPATH": path, "VLLM_PLUGINS": "minimal"}


def _tiny(place: Path) -> Path:
    from tests.vllm.models import make

    return make("qwen3", place / "qwen3")


SECTIONS = {"tiny": tiny, "smollm2": smollm2, "start": start}


def main() -> None:
    """Run the sections that are named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("sections", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--peer", metavar="FOLDER:PLUGIN,…", help="another platform")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--callers", type=int, nargs="*", default=[8, 32])
    parser.add_argument("--longest", type=int, default=256, help="tokens of the longest answer")
    parser.add_argument("--continuous", action="store_true", help="Hugging Face's, beside")
    options = parser.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        for name in options.sections:
            SECTIONS[name](options, Path(place))
    print(f"\n{time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
