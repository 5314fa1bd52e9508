"""The doctor's screen, in English and Chinese."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jumar.host.doctor import id_map

if TYPE_CHECKING:
    from jumar.host.doctor import Diagnosis, Finding, Unseen
    from jumar.host.doctor.base import Lang, Severity
    from jumar.host.facts import HostFacts

MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold red"),
    "warning": ("!", "bold yellow"),
    "info": ("·", "bold cyan"),
}
WORDS = {
    "en": {
        "error": "error",
        "warning": "warning",
        "info": "note",
        "seen": "seen",
        "cause": "cause",
        "fix": "fix",
        "see": "see",
        "follows": "follows from it:",
        "dark": "Could not look at",
        "colon": ": ",
        "rules": " (rules left out: {n})",
        "ids": "Which number belongs where",
        "healthy": "Nothing is wrong.",
        "partly": "Nothing is wrong in what could be looked at.",
        "more": "… and {n} more",
        "total": "Errors: {error}, warnings: {warning}, notes: {info}; rules looked at: {looked}.",
        "unknown": "not known",
    },
    "zh": {
        "error": "错误",
        "warning": "警告",
        "info": "提示",
        "seen": "现象",
        "cause": "原因",
        "fix": "解决",
        "see": "参考",
        "follows": "由此引起：",
        "dark": "未能检查",
        "colon": "：",
        "rules": "（跳过 {n} 条规则）",
        "ids": "各编号的对应关系",
        "healthy": "没有发现问题。",
        "partly": "在能检查的范围内没有发现问题。",
        "more": "……还有 {n} 处",
        "total": "错误 {error}，警告 {warning}，提示 {info}；共检查 {looked} 条规则。",
        "unknown": "未知",
    },
}
SPACES = {
    "en": ("npu-smi NPU", "chip", "/dev/davinciN", "logic id (CANN)", "npu:N here"),
    "zh": ("npu-smi NPU", "芯片", "/dev/davinciN", "逻辑编号（CANN）", "本进程 npu:N"),
}
SHOWN = 4
"""Lines of evidence per finding; --json has them all."""
LABEL = 9
"""Columns of the labels "cause", "fix", …"""


def print_diagnosis(diagnosis: Diagnosis, facts: HostFacts, lang: Lang) -> None:
    """Print everything to stdout: findings worst first, the map of ids, what stayed dark."""
    console = Console(highlight=False)
    console.print(Text(about(facts), style="dim"), soft_wrap=True)
    for finding in diagnosis.findings:
        console.print()
        print_finding(console, finding, lang)
    print_ids(console, diagnosis, facts, lang)
    print_dark(console, diagnosis.unseen, lang)
    console.print()
    counts = Counter(one.rule.severity for root in diagnosis.findings for one in root.walk())
    severities = {severity: counts[severity] for severity in MARKS}
    if not counts["error"] and not counts["warning"]:
        word = "partly" if diagnosis.unseen else "healthy"
        console.print(Text(WORDS[lang][word], style="bold green"))
    console.print(Text(WORDS[lang]["total"].format(looked=diagnosis.looked, **severities)))


def about(facts: HostFacts) -> str:
    """One line: source, chips, versions of the chain."""
    chips = Counter(card.soc.name if card.soc else card.name for card in facts.cards)
    driver = facts.driver and (facts.driver.package_version or facts.driver.version)
    parts = [facts.source, *(f"{name} x{count}" for name, count in chips.items())]
    chain = {
        "driver": driver,
        "CANN": facts.cann.version if facts.cann else None,
        "torch": facts.python.version_of("torch"),
        "torch_npu": facts.python.version_of("torch-npu"),
    }
    parts += [f"{name} {version}" for name, version in chain.items() if version]
    return " · ".join(parts)


def print_finding(console: Console, finding: Finding, lang: Lang, depth: int = 0) -> None:
    """One finding, then, indented, those that follow from it."""
    words = WORDS[lang]
    mark, style = MARKS[finding.rule.severity]
    head = Text.assemble(
        (f"{mark} {words[finding.rule.severity]}  ", style),
        (finding.title(lang), "bold"),
        (f"  {finding.id}", "dim"),
    )
    console.print(Padding(head, (0, 0, 0, depth), expand=False))
    grid = labelled()
    grid.add_row(words["seen"], Text("\n".join(shortened(finding.evidence(lang), lang))))
    if depth == 0:
        grid.add_row(words["cause"], Text(finding.cause(lang)))
    console.print(Padding(grid, (0, 0, 0, depth + 2), expand=False))
    if depth == 0:
        print_fix(console, finding, lang)
    if finding.consequences:
        console.print(Text(f"  {' ' * depth}{words['follows']}", style="dim"))
    for below in finding.consequences:
        print_finding(console, below, lang, depth + 4)


def labelled() -> Table:
    """A column of labels and one of texts that wrap beside it."""
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=LABEL, style="dim")
    grid.add_column(overflow="fold")
    return grid


def shortened(evidence: list[str], lang: Lang) -> list[str]:
    """The first lines of evidence, and how many are left out."""
    if len(evidence) <= SHOWN:
        return evidence
    more = WORDS[lang]["more"].format(n=len(evidence) - SHOWN + 1)
    return [*evidence[: SHOWN - 1], more]


def print_fix(console: Console, finding: Finding, lang: Lang) -> None:
    """The steps, unwrapped so that they can be pasted, and who reported it."""
    label = WORDS[lang]["fix"]
    pad = " " * (LABEL - Text(label).cell_len)
    for line in finding.fix(lang):
        style = "green" if not line.startswith("#") else "dim"
        console.print(Text.assemble((f"  {label}{pad} ", "dim"), (line, style)), soft_wrap=True)
        label, pad = "", " " * LABEL
    if finding.rule.reference:
        grid = labelled()
        grid.add_row(WORDS[lang]["see"], Text(" ".join(finding.rule.reference), style="dim"))
        console.print(Padding(grid, (0, 0, 0, 2), expand=False))


def print_ids(console: Console, diagnosis: Diagnosis, facts: HostFacts, lang: Lang) -> None:
    """The map of the four id spaces, where a finding is about numbers."""
    found = {one.id for root in diagnosis.findings for one in root.walk()}
    rows = id_map(facts)
    if not rows or not any(id_.startswith("visible-") or id_ in ABOUT_IDS for id_ in found):
        return
    console.print()
    table = Table(*SPACES[lang], title=WORDS[lang]["ids"], title_justify="left", title_style="bold")
    for row in rows:
        cells = (row.npu_id, row.chip_id, row.phy_id, row.logic_id, row.process)
        table.add_row(*("-" if cell is None else str(cell) for cell in cells))
    console.print(table)


ABOUT_IDS = {"id-spaces-differ", "default-card-busy", "chosen-card-busy", "log-wrong-id"}


def print_dark(console: Console, unseen: tuple[Unseen, ...], lang: Lang) -> None:
    """What could not be looked at, and why."""
    if not unseen:
        return
    words = WORDS[lang]
    console.print()
    console.print(Text(words["dark"], style="bold"))
    for gap in unseen:
        why = " / ".join((gap.why or words["unknown"]).splitlines()[:2])
        count = words["rules"].format(n=len(gap.rules)) if gap.rules else ""
        console.print(
            Padding(Text(f"{gap.what}{words['colon']}{why}{count}"), (0, 0, 0, 2), expand=False)
        )
