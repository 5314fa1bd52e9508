"""The README in English and the one in Chinese say the same, and what they link to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")


def outline(text: str) -> list[str]:
    """The heading levels, in order."""
    return re.findall(r"^(#+) ", without_code(text), re.M)


def code(text: str) -> list[str]:
    return re.findall(r"```.*?```", text, re.S)


def without_code(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.S)


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)#]+)\)", without_code(text))


def blocks(text: str) -> list[str]:
    """What each paragraph, list item and code block is, in order: the shape of the page."""
    shapes = {"#": "heading", "-": "item", "`": "code", "[": "link"}
    lines = re.split(r"\n\n|\n(?=- )", re.sub(r"```.*?```", "`", text, flags=re.S).strip())
    return [shapes.get(line[0], "paragraph") if line else "" for line in lines]


def test_both_have_the_same_headings_and_paragraphs_in_the_same_order() -> None:
    assert outline(ENGLISH) == outline(CHINESE)
    assert blocks(ENGLISH) == blocks(CHINESE)


def test_both_show_the_same_commands() -> None:
    assert code(ENGLISH) == code(CHINESE)


def test_both_link_to_the_same_pages() -> None:
    mirrored = {"README.zh.md": "README.md"}
    assert [mirrored.get(link, link) for link in links(ENGLISH)] == links(CHINESE)


@pytest.mark.parametrize(
    "page",
    sorted(
        p.relative_to(ROOT)
        for p in ROOT.glob("**/*.md")
        if not any(part == "node_modules" or part.startswith(".venv") for part in p.parts)
    ),
    ids=str,
)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in links((ROOT / page).read_text(encoding="utf-8")):
        if "://" not in link and not link.startswith("mailto:"):
            assert (ROOT / page.parent / link).exists(), f"{page} links to {link}"
