"""Write docs/doctor-rules.md from the rows of the doctor. `--check` only compares.

python tools/doctor_rules.py [--check]
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from jumar.host.doctor.base import Rule
from jumar.host.doctor.logs import LogRule, log_rules
from jumar.host.doctor.rules import TOPICS, rules

PAGE = Path(__file__).parents[1] / "docs" / "doctor-rules.md"
NOTE = "<!-- Written by `python tools/doctor_rules.py`; edit the rows, not this page. -->\n"
INTRO = """\
# The doctor's rules

{count} rules about hosts, {logs} texts of logs. Rows: `src/jumar/host/doctor/rules/`. The order of
the topics is that of causes. "for" names the purpose without which a rule is not looked at;
"follows from" the rules below whose finding this one is shown.
"""


def main() -> int:
    """Write the page, or say that it is out of step."""
    text = page()
    if "--check" not in sys.argv:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
        print(f"Out of step: {PAGE.name}. Run: python tools/doctor_rules.py")
        return 1
    return 0


def page() -> str:
    """All rules by topic, then the texts of logs."""
    parts = [NOTE, INTRO.format(count=len(rules()), logs=len(log_rules()))]
    for topic in TOPICS:
        parts.append(f"## {topic}\n")
        parts += [*table(rule for rule in rules() if rule.topic == topic), ""]
    parts += ["## Texts in logs\n", *log_table(log_rules()), ""]
    return "\n".join(parts)


def table(found: Iterable[Rule]) -> list[str]:
    """One row per rule."""
    lines = ["| rule | | what | 中文 | for | follows from |", "|---|---|---|---|---|---|"]
    for rule in found:
        purposes = ", ".join(rule.purposes)
        after = ", ".join(f"`{cause}`" for cause in rule.after)
        lines.append(
            f"| `{rule.id}` | {rule.severity} | {rule.title.en} | {rule.title.zh} "
            f"| {purposes} | {after} |"
        )
    return lines


def log_table(found: Iterable[LogRule]) -> list[str]:
    """One row per text rule, with what it looks for."""
    lines = ["| rule | | what | 中文 | found by |", "|---|---|---|---|---|"]
    for rule in found:
        marks = [*rule.texts, *map(str, rule.codes)]
        looked = ", ".join(f"`{mark}`" for mark in marks).replace("|", "\\|")
        lines.append(
            f"| `{rule.id}` | {rule.severity} | {rule.title.en} | {rule.title.zh} | {looked} |"
        )
    return lines


if __name__ == "__main__":
    sys.exit(main())
