"""Find known error texts in logs of torch_npu, vLLM and CANN: what they mean, and which came first.

A log is read in pieces of whole lines, and a piece is searched for the plain beginning of each
text; only where one is found does a regular expression look at that line. So a file of 100 MB
takes seconds and little memory.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import BinaryIO

from jumar.host.doctor.base import Finding, Rule, Text, Values
from jumar.host.doctor.rules import fields, read_rows

PIECE = 1 << 20
LONGEST_LINE = 1 << 16
"""A line longer than this (progress bars, one-line JSON) is cut into several for the search."""
KEPT = 3
"""Matches of one text whose lines are kept; the others are counted."""
SHOWN = 240
"""Characters of a line that are shown."""

EVIDENCE = Text(en="line {line}{times}: {text}", zh="第 {line} 行{times}：{text}")
NO_DIGIT_BEFORE, NO_DIGIT_AFTER = r"(?<![\d.])", r"(?!\d)"
WORDS = r"err|ret|code|result|fail|status|exception"
"""A number is an error code only after one of these, on the same line."""


@dataclass(frozen=True)
class LogRule(Rule):
    """A row of ``log_texts.yaml``: a rule that looks at lines instead of facts."""

    texts: tuple[str, ...] = ()
    codes: tuple[int, ...] = ()
    values: str | None = None
    when: str | None = None


@dataclass
class _Seen:
    """The matches of one rule so far."""

    count: int = 0
    kept: list[dict[str, object]] = field(default_factory=list)


def classify(stream: BinaryIO) -> list[Finding]:
    """The known texts of a log, in the order of their first lines; each with up to three lines.

    Nothing is arranged yet: `engine.arrange` puts echoes below causes, alone or with a host's
    findings. Bytes that are no UTF-8 are replaced.
    """
    seen: dict[str, _Seen] = {}
    number = 1
    for piece in pieces(stream):
        for rule, offset, values in matches(piece):
            if rule.id not in seen:
                seen[rule.id] = _Seen()
            found = seen[rule.id]
            found.count += 1
            if len(found.kept) < KEPT:
                line = number + piece.count(b"\n", 0, offset)
                found.kept.append({"line": line, "text": line_at(piece, offset), **values})
        number += piece.count(b"\n")
    by_id = {rule.id: rule for rule in log_rules()}
    findings = [Finding(by_id[id_], evidence(found)) for id_, found in seen.items()]
    return sorted(findings, key=lambda finding: int(str(finding.seen[0]["line"])))


def evidence(found: _Seen) -> tuple[Values, ...]:
    """The kept lines; the first says how often the text came in all."""
    first, *others = found.kept
    times = f" (x{found.count})" if found.count > 1 else ""
    return ({**first, "times": times}, *({**other, "times": ""} for other in others))


@cache
def log_rules() -> tuple[LogRule, ...]:
    """All rows of ``log_texts.yaml``."""
    return tuple(
        LogRule(**fields({"evidence": {"en": EVIDENCE.en, "zh": EVIDENCE.zh}, **row}, "log"))
        for row in read_rows("log_texts")
    )


def pieces(stream: BinaryIO) -> Iterator[bytes]:
    """The stream in pieces of about `PIECE` bytes that end at line ends."""
    rest = b""
    while block := stream.read(PIECE):
        rest += block
        cut = rest.rfind(b"\n") + 1
        if not cut and len(rest) > LONGEST_LINE + PIECE:
            cut = len(rest)
        if cut:
            yield rest[:cut]
            rest = rest[cut:]
    if rest:
        yield rest


def matches(piece: bytes) -> Iterator[tuple[LogRule, int, Mapping[str, str]]]:
    """Each match in a piece: its rule, its offset, and the values cut out of its line."""
    for rule, needles in searches():
        hit = {
            max(piece.rfind(b"\n", 0, at), 0): at
            for needle, pattern in needles
            for at in places(piece, needle, pattern)
        }
        for offset in sorted(hit.values()):
            values = cut_out(rule, line_at(piece, offset, LONGEST_LINE))
            if values is not None:
                yield rule, offset, values


def places(piece: bytes, needle: bytes, pattern: re.Pattern[bytes]) -> Iterator[int]:
    """Where the pattern matches, at most once per line. The needle is its cheap first look."""
    at = piece.find(needle)
    while at >= 0:
        end = piece.find(b"\n", at)
        end = len(piece) if end < 0 else end
        start = max(piece.rfind(b"\n", 0, at) + 1, at - LONGEST_LINE)
        match = pattern.search(piece, start, min(end, at + LONGEST_LINE))
        if match is not None:
            yield match.start()
        at = piece.find(needle, end)


@cache
def searches() -> tuple[tuple[LogRule, tuple[tuple[bytes, re.Pattern[bytes]], ...]], ...]:
    """Each rule with its needles and patterns."""
    return tuple(
        (
            rule,
            (
                *((text.split("…")[0].encode(), text_pattern(text)) for text in rule.texts),
                *((str(code).encode(), code_pattern(code)) for code in rule.codes),
            ),
        )
        for rule in log_rules()
    )


def text_pattern(text: str) -> re.Pattern[bytes]:
    """``a…b`` is a, then b, on one line; a digit at an edge is the edge of its number."""
    parts = [
        (NO_DIGIT_BEFORE if part[0].isdigit() else "")
        + re.escape(part)
        + (NO_DIGIT_AFTER if part[-1].isdigit() else "")
        for part in text.split("…")
        if part
    ]
    return re.compile("[^\n]*?".join(parts).encode())


def code_pattern(code: int) -> re.Pattern[bytes]:
    """The number as a whole, after a word that speaks of an error."""
    return re.compile(rf"(?i:{WORDS})[^\n]{{0,60}}?(?<![\w.]){code}(?!\w|\.\d)".encode())


def line_at(piece: bytes, offset: int, longest: int = SHOWN) -> str:
    """The line around an offset, without control characters; the match stays in sight."""
    start = piece.rfind(b"\n", 0, offset) + 1
    end = piece.find(b"\n", offset)
    end = len(piece) if end < 0 else end
    if offset - start > longest // 2:
        start = offset - longest // 4
    text = piece[start : min(end, start + longest)].decode("utf-8", errors="replace")
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return "".join(sign for sign in text if sign.isprintable() or sign == "\t").strip()


def cut_out(rule: LogRule, line: str) -> Mapping[str, str] | None:
    """The named values of a line, or None where the rule's condition refuses them."""
    if rule.values is None:
        return {}
    match = re.search(rule.values, line)
    found = match.groupdict() if match else {}
    return found if rule.when is None or CONDITIONS[rule.when](found) else None


def oom_other_holder(values: Mapping[str, str]) -> bool:
    """Whether this process had allocated less than a third of the card when it ran out."""
    if not values:
        return False
    allocated = float(values["allocated"]) / (1024 if values["unit"] == "MiB" else 1)
    return allocated < float(values["total"]) / 3


CONDITIONS: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "oom_other_holder": oom_other_holder,
    "oom_own": lambda values: not oom_other_holder(values),
}
"""What `LogRule.when` may name."""
