"""The page: complete in itself, honest about its files, safe with any text."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.reporting.samples import (
    climbed,
    events,
    failed_report,
    picture,
    report,
    sound,
    vectors,
    words,
)

from jumar.contracts.results import RunReport
from jumar.reporting import as_article, as_html
from jumar.reporting.exhibits import fetched
from jumar.reporting.html import _ticks

ATTACK = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)> & {{ 7 * 7 }}"
VOID = {"meta", "img", "br", "hr", "path", "circle", "input", "link"}


class Page(HTMLParser):
    """A parsed page: unbalanced tags are errors."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]

    def classed(self, name: str) -> list[dict[str, str | None]]:
        return [attrs for _, attrs in self.tags if name in (attrs.get("class") or "").split()]


def page(*reports: RunReport, folder: Path = Path()) -> Page:
    return Page(as_html([(folder / f"{one.run_id}.report.json", one) for one in reports]))


@pytest.fixture
def everything(tmp_path: Path) -> list[RunReport]:
    """Each kind of artifact, a fallback, a warning, and a failure."""
    texts = ["one", "two", ATTACK]
    return [
        report("a", artifacts=[picture(tmp_path / "a.png")], warnings=["A warning."]),
        report("b", artifacts=[sound(tmp_path / "b.wav")], backend_timeline=[climbed(why="no")]),
        report("c", artifacts=[words(tmp_path / "c.txt", ATTACK)], inputs={"prompt": ATTACK}),
        report(
            "d",
            artifacts=[vectors(tmp_path / "d.npy", [[1, 0], [0.6, 0.8], [0, 1]])],
            inputs={"texts": texts},
        ),
        failed_report("e", inputs={"prompt": "x" * 100_000}),
    ]


def test_the_page_asks_nobody_for_anything(everything: list[RunReport]) -> None:
    html = as_html([(Path("x"), one) for one in everything])
    without_data = re.sub(r'"data:[^"]*"', "", html)
    assert "//" not in without_data
    assert "default-src 'none'" in html
    assert "@import" not in html
    assert "url(" not in html
    parsed = Page(html)
    assert parsed.all("script") == parsed.all("link") == parsed.all("iframe") == []
    for _, attrs in parsed.tags:
        for name in ("src", "href"):
            assert (attrs.get(name) or "#").startswith(("data:", "#"))


def test_what_a_caller_wrote_is_only_text(everything: list[RunReport]) -> None:
    parsed = page(*everything)
    assert parsed.all("script") == []
    assert all(not name.startswith("on") for _, attrs in parsed.tags for name in attrs)
    assert any(ATTACK in text for text in parsed.text)


@pytest.mark.parametrize(
    "changes",
    [
        {"model": ATTACK},
        {"run_id": ATTACK},
        {"task": ATTACK},
        {"device": ATTACK},
        {"warnings": [ATTACK]},
        {"timings": {ATTACK: 5.0}, "stream_events": []},
        {"config_resolved": {ATTACK: ATTACK}, "config_origins": {ATTACK: ATTACK}},
        {"fingerprint": {ATTACK: ATTACK}},
        {"error": ATTACK},
        {"backend_timeline": [climbed(ATTACK, why=ATTACK)]},
        {"inputs": {ATTACK: [ATTACK, {"deep": ATTACK}]}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_no_field_can_break_out(changes: dict[str, object]) -> None:
    parsed = page(report(**changes))
    assert parsed.all("script") == []
    assert parsed.all("img") == []


def test_pictures_and_sound_are_embedded_byte_for_byte(
    everything: list[RunReport], tmp_path: Path
) -> None:
    parsed = page(*everything)
    for tag, file in (("img", "a.png"), ("audio", "b.wav")):
        (attrs,) = parsed.all(tag)
        kind, _, data = str(attrs["src"]).partition(";base64,")
        assert kind.startswith(f"data:{'image' if tag == 'img' else 'audio'}/")
        assert base64.b64decode(data) == (tmp_path / file).read_bytes()


def test_a_small_picture_is_enlarged_without_smoothing(everything: list[RunReport]) -> None:
    (attrs,) = page(everything[0]).all("img")
    assert attrs["class"] == "tiny"


def test_vectors_are_shown_as_a_map_of_their_likeness(everything: list[RunReport]) -> None:
    parsed = page(everything[3])
    cells = [attrs["opacity"] for attrs in parsed.all("rect") if "opacity" in attrs]
    assert cells[:3] == ["1.00", "0.60", "0.00"]
    assert [attrs["title"] for attrs in parsed.all("th")] == ["one", "two", ATTACK]


def test_a_file_that_changed_since_is_told(tmp_path: Path) -> None:
    artifact = picture(tmp_path / "a.png")
    assert page(report(artifacts=[artifact])).classed("changed") == []
    picture(tmp_path / "a.png", side=8)
    changed = page(report(artifacts=[artifact]))
    assert len(changed.classed("changed")) == 1
    assert "The file is no longer the one that this run wrote." in changed.text


def test_a_file_that_is_gone_is_told(tmp_path: Path) -> None:
    artifact = picture(tmp_path / "a.png")
    (tmp_path / "a.png").unlink()
    gone = page(report(artifacts=[artifact]))
    assert gone.all("img") == []
    assert "The file cannot be read: No such file or directory." in gone.text


def test_artifacts_are_found_beside_a_report_that_was_moved(tmp_path: Path) -> None:
    artifact = picture(tmp_path / "a.png")
    moved = tmp_path / "moved"
    moved.mkdir()
    (tmp_path / "a.png").rename(moved / "a.png")
    assert len(page(report(artifacts=[artifact]), folder=moved).all("img")) == 1


def test_a_file_that_is_too_large_is_only_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jumar.reporting.exhibits.EMBED_LIMIT", 100)
    large = page(report(artifacts=[picture(tmp_path / "a.png")]))
    assert large.all("img") == []
    assert "Over 100 B: not embedded." in large.text


def test_bars_stand_where_the_stages_were() -> None:
    run = report(
        timings={"total_ms": 1000.0}, stream_events=events(("load", 0, 250), ("run", 250, 1000))
    )
    bars = [(a["x"], a["width"]) for a in page(run).classed("bar")]
    assert bars == [("0.000%", "25.000%"), ("25.000%", "75.000%")]


def test_the_longest_stage_stands_out() -> None:
    assert len(page(report()).classed("main")) == 1


def test_a_fallback_is_coloured_and_a_missing_rung_is_not() -> None:
    parsed = page(report(backend_timeline=[climbed("unet", why="InductorError"), climbed("vae")]))
    assert len(parsed.classed("fell")) == 1
    assert len([a for a in parsed.classed("rung") if "failed" in str(a["class"])]) == 1
    assert "fell back" in parsed.text


def test_an_error_is_shown_with_hint_and_cause() -> None:
    text = page(failed_report()).text
    for said in (
        "insufficient_memory",
        "Take a smaller size or batch.",
        "OutOfMemoryError: tried to allocate 20 GiB",
        "failed",
    ):
        assert any(said in part for part in text), said


def test_each_config_value_stands_with_its_origin() -> None:
    origins = [a["class"] for a in page(report()).classed("origin")]
    assert len(origins) == 5
    assert origins.count("origin default") == 3


def test_a_long_prompt_is_cut_in_the_title_and_its_length_is_said() -> None:
    parsed = page(failed_report(inputs={"prompt": "x" * 100_000}))
    assert max(map(len, parsed.text)) < 5_000
    assert any("(100,000 characters)" in part for part in parsed.text)


def test_several_runs_are_listed_first_and_one_is_not(everything: list[RunReport]) -> None:
    many = page(*everything)
    assert [a["href"] for a in many.all("a")] == [f"#run-{n}" for n in range(1, 6)]
    assert page(everything[0]).all("nav") == []


def test_no_run_is_a_page_too() -> None:
    assert page().all("article") == []


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0, 999.0, 12_345.0, 3.6e6])
def test_ticks_are_few_round_and_inside(scale: float) -> None:
    ticks = _ticks(scale)
    assert 2 <= len(ticks) <= 6
    assert ticks[0] == 0
    assert ticks[-1] <= scale * (1 + 1e-9)
    assert f"{ticks[1]:.0e}"[0] in "125"


def test_a_drawn_run_needs_neither_style_nor_script_of_its_own(tmp_path: Path) -> None:
    """A page with a strict Content-Security-Policy can show it as a part of itself."""
    file = tmp_path / "c.npy"
    made = vectors(file, [[1, 0], [0.6, 0.8]]).model_copy(update={"path": "/v1/artifacts/abc"})
    one = report("a", artifacts=[made], inputs={"texts": ["one", ATTACK]})
    part = Page(as_article(one, [fetched(made, file, one)]))
    assert all("style" not in attrs for _, attrs in part.tags)
    assert part.all("script") == part.all("style") == []
    (link,) = part.all("a")
    assert (link["href"], link["download"]) == ("/v1/artifacts/abc", "c.npy")
    likeness = [attrs["opacity"] for attrs in part.all("rect") if "opacity" in attrs]
    assert likeness == ["1.00", "0.60", "0.60", "1.00"]


def test_what_is_not_kept_any_more_is_not_linked(tmp_path: Path) -> None:
    made = picture(tmp_path / "a.png")
    (tmp_path / "a.png").unlink()
    one = report("a", artifacts=[made])
    part = Page(as_article(one, [fetched(made, tmp_path / "a.png", one)]))
    assert part.all("a") == part.all("img") == []
    assert "It is not kept any more." in part.text
