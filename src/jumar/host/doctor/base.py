"""What a rule is, and what comes of one: rows of data, two languages, no text in code.

A rule's row (``rules/*.yaml``) holds every sentence, in English and Chinese, with ``{names}``.
A check returns the values of those names, one mapping per line of evidence. So a check knows
no language, and a translation knows no host.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Lang = Literal["en", "zh"]
Severity = Literal["error", "warning", "info"]
Purpose = Literal["generate", "serve", "vllm"]
Values = Mapping[str, object]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
PURPOSES: tuple[Purpose, ...] = ("generate", "serve", "vllm")

STAND_INS = {"(not set)": "（未设置）", "(none)": "（无）"}
"""What checks write for a value that is not there, in Chinese."""


@dataclass(frozen=True)
class Text:
    """One sentence in both languages, with ``{names}`` that evidence fills."""

    en: str
    zh: str

    def say(self, lang: Lang, values: Values) -> str:
        """The sentence; raises KeyError where the row names a value that its check lacks."""
        if lang == "en":
            return self.en.format_map(values)
        return self.zh.format_map({key: STAND_INS.get(str(v), v) for key, v in values.items()})


@dataclass(frozen=True)
class Step:
    """One step of a fix: a command to run, a sentence, or a command with its sentence."""

    run: str | None = None
    say: Text | None = None

    def lines(self, lang: Lang, values: Values) -> list[str]:
        """The sentence as a comment above the command, so that the whole can be pasted."""
        said = [f"# {self.say.say(lang, values)}"] if self.say else []
        return said + ([self.run.format_map(values)] if self.run else [])


@dataclass(frozen=True)
class Rule:
    """One row: what it is called, how bad, why it happens, what to do, who says so.

    `needs` names the parts of `HostFacts` without which the check cannot look; `after` the rules
    (or log texts) whose finding explains this one; `purposes` those for which it is looked at,
    empty for all.
    """

    id: str
    topic: str
    severity: Severity
    title: Text
    evidence: Text
    cause: Text
    fix: tuple[Step, ...]
    reference: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    purposes: tuple[Purpose, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A rule that fired: the evidence as values, and what followed from it."""

    rule: Rule
    seen: tuple[Values, ...]
    consequences: tuple[Finding, ...] = field(default=())

    @property
    def id(self) -> str:
        return self.rule.id

    @property
    def severity(self) -> Severity:
        """The worst of this finding and all that follow from it."""
        return min((f.rule.severity for f in self.walk()), key=SEVERITIES.index)

    def walk(self) -> Iterator[Finding]:
        """This finding, then everything below it."""
        yield self
        for finding in self.consequences:
            yield from finding.walk()

    def title(self, lang: Lang) -> str:
        return self.rule.title.say(lang, self.seen[0])

    def evidence(self, lang: Lang) -> list[str]:
        return [self.rule.evidence.say(lang, values) for values in self.seen]

    def cause(self, lang: Lang) -> str:
        return self.rule.cause.say(lang, self.seen[0])

    def fix(self, lang: Lang) -> list[str]:
        """Lines that can be pasted into a shell; sentences stand as comments."""
        return [line for step in self.rule.fix for line in step.lines(lang, self.seen[0])]

    def as_dict(self, lang: Lang) -> dict[str, Any]:
        """The JSON shape of ``jumar doctor --json``."""
        return {
            "id": self.id,
            "topic": self.rule.topic,
            "severity": self.rule.severity,
            "title": self.title(lang),
            "evidence": self.evidence(lang),
            "lines": sorted({v["line"] for v in self.seen if isinstance(v.get("line"), int)}),
            "cause": self.cause(lang),
            "fix": self.fix(lang),
            "reference": list(self.rule.reference),
            "consequences": [below.as_dict(lang) for below in self.consequences],
        }


class CannotLook(Exception):
    """A check lacks what it needs: `what` is the source, `why` the reason, if known."""

    def __init__(self, what: str, why: str | None = None) -> None:
        super().__init__(what, why)
        self.what = what
        self.why = why
