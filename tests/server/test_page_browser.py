"""The page in a browser: what a visitor does with it, and what he sees then."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.isolate.conftest import eventually
from tests.reporting.samples import picture
from tests.reporting.test_html import ATTACK
from tests.server.test_jobs import is_over, job, start
from tests.support.browser import PROGRAM, Tab, browsing
from tests.support.serving import Running, serving

from jumar.server.settings import Keys

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")

KEY = "sk-of-the-browser"
RESULT = "document.querySelector('#result')"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with browsing(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    """No test ends with a script that failed, or with something that the policy forbade."""
    browser.looks()
    browser.asked.clear()
    browser.complaints.clear()
    yield browser
    assert browser.complaints == []
    browser.open("about:blank")


def opened(tab: Tab, server: Running, place: str, selector: str) -> None:
    """A place of the page, once it shows what a selector finds."""
    tab.open("about:blank")
    tab.open(f"{server.url}/{place}")
    tab.until(f"document.querySelector({selector!r})")


def tried(tab: Tab, server: Running, model: str = "toy", task: str = "", **values: str) -> None:
    """The form of a model, filled in and sent."""
    opened(tab, server, f"#/models/{model}{task}", f"#try[data-model='{model}']")
    for name, value in values.items():
        tab.fill(name.replace("__", "."), value)
    tab.click("#try button.main")


# ---- jobs ----------------------------------------------------------------------------------------


def test_a_form_makes_a_job_and_its_report_takes_the_place_of_its_progress(
    tab: Tab, server: Running
) -> None:
    tried(tab, server, inputs__prompt="a rope", config__speed="1.5")
    tab.until(f"{RESULT}.querySelector('article .when')")
    text = tab.text()
    assert "a rope" in text
    assert "speak" in text
    newest = server.client.get("/v1/jobs?limit=1").json()["data"][0]
    assert newest["request"]["inputs"] == {"prompt": "a rope"}
    origins = newest["result"]["metadata"]["config_origins"]
    assert (origins["speed"], origins["seed"]) == ("caller", "default"), "empty is not sent"


def test_the_progress_of_a_job_moves_and_it_can_be_stopped(tab: Tab, server: Running) -> None:
    tried(tab, server, inputs__prompt="slow")
    first = tab.until(f"{RESULT}.querySelector('progress').value")
    tab.until(f"{RESULT}.querySelector('progress').value > {first}")
    tab.until(f"/speak · \\d+ of 2000/.test({RESULT}.innerText)")
    tab.click("#result button.quiet")
    tab.until(f"{RESULT}.querySelector('.note.failed')")
    newest = server.client.get("/v1/jobs?limit=1").json()["data"][0]
    assert newest["state"] == "cancelled"
    tab.asked.clear()
    time.sleep(1.2)
    tab.text()
    assert [url for url in tab.asked if "/page/jobs/" in url] == [], "it is over"


def test_a_button_stays_the_same_while_what_is_around_it_changes(tab: Tab, server: Running) -> None:
    """A press takes longer than an answer of the server: it must not lose its button on the way."""
    tried(tab, server, inputs__prompt="slow")
    tab.until(f"{RESULT}.querySelector('progress').value")
    tab.run(f"{{ window.kept = [...{RESULT}.querySelectorAll('progress, button')]; 1 }}")
    first = tab.run("kept[0].value")
    tab.until(f"kept[0].value > {first}")
    assert tab.run("kept.every(one => one.isConnected)")
    tab.click("#result button.quiet")
    tab.until(f"{RESULT}.querySelector('.note.failed')")


def test_the_first_page_follows_jobs_without_being_loaded_again(tab: Tab, server: Running) -> None:
    opened(tab, server, "", "#models li")
    name = start(server, "slow")
    row = f"document.getElementById('row-{name}')"
    first = tab.until(f"{row}.querySelector('progress').value")
    tab.until(f"{row}.querySelector('progress').value > {first}")
    tab.run(f"{row}.focus()")
    server.client.delete(f"/v1/jobs/{name}")
    tab.until(f"{row}.innerText.includes('cancelled')")
    assert tab.run("document.activeElement.id") == f"row-{name}", "who reads keeps his place"
    tab.click(f"#row-{name}")
    tab.until("document.querySelector('.job .note.failed')")
    assert tab.run("location.hash") == f"#/jobs/{name}"


WHAT_IS_SENT = """
    window.fetch = async (path, {body}) => {
        window.sent = [...body].map(([name, value]) => [name, value.name ?? JSON.parse(value)]);
        return new Response('{"error": {"code": "overloaded"}}', {status: 429});
    }
"""


def test_a_picture_can_be_given_and_is_seen_before_it_is_sent(
    tab: Tab, server: Running, tmp_path: Path
) -> None:
    picture(tmp_path / "mine.png", side=32)
    opened(tab, server, "#/models/sdxl-digits?task=image2image", "#try[data-task='image2image']")
    tab.fill("inputs.prompt", "a green two")
    tab.choose_file("inputs.image", tmp_path / "mine.png")
    assert tab.until("document.querySelector('img.preview').naturalWidth") == 32
    tab.run(WHAT_IS_SENT)
    tab.click("#try button.main")
    request, image = tab.until("window.sent")
    assert image == ["image", "mine.png"]
    assert request[0] == "request"
    assert request[1] == {
        "model": "sdxl-digits", "task": "image2image", "inputs": {"prompt": "a green two"},
        "config": {}, "async_run": True,
    }  # fmt: skip
    assert "-F image=@'mine.png'" in tab.run("document.querySelector('#command pre').textContent")


# ---- errors --------------------------------------------------------------------------------------


def test_what_is_wrong_is_said_at_the_field(tab: Tab, server: Running) -> None:
    tried(tab, server, inputs__prompt="a", config__speed="99")
    tab.until(f"{RESULT}.querySelector('.note.failed')")
    assert "invalid_value" in tab.text()
    assert tab.run("document.activeElement.name") == "config.speed"
    assert tab.run("document.activeElement.getAttribute('aria-invalid')") == "true"
    assert "above 4" in tab.run("document.activeElement.nextElementSibling.innerText")
    tab.fill("config.speed", "1")
    assert tab.run("document.querySelectorAll('[aria-invalid], #try small.bad').length") == 0


def test_what_is_gone_is_not_asked_for_again_and_again(tab: Tab, server: Running) -> None:
    name = start(server, "slow")
    opened(tab, server, f"#/jobs/{name}", ".job progress")
    server.client.delete(f"/v1/jobs/{name}")
    tab.until("document.querySelector('.job .note.failed')")
    assert eventually(lambda: is_over(server, name))
    opened(tab, server, f"#/jobs/{name}", ".job[role=status]")
    server.client.delete(f"/v1/jobs/{name}")
    opened(tab, server, f"#/jobs/{name}", "#main > .note.failed")
    assert "not_found" in tab.text()


def test_a_run_that_fails_shows_its_error_with_what_to_do(tab: Tab, server: Running) -> None:
    tried(tab, server, inputs__prompt="fail")
    tab.until(f"{RESULT}.querySelector('.note.failed')")
    newest = server.client.get("/v1/jobs?limit=1").json()["data"][0]
    assert newest["error_detail"]["code"] in tab.text()
    assert newest["error_detail"]["message"] in tab.text()


def test_a_server_that_is_gone_is_told_and_found_again(tab: Tab, server: Running) -> None:
    opened(tab, server, "", "#models li")
    away = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    tab.send("Network.emulateNetworkConditions", **away)
    try:
        tab.until("!document.getElementById('banner').hidden")
    finally:
        back = {**away, "offline": False, "downloadThroughput": -1, "uploadThroughput": -1}
        tab.send("Network.emulateNetworkConditions", **back)
    tab.until("document.getElementById('banner').hidden")


# ---- only text -----------------------------------------------------------------------------------


def test_a_prompt_with_a_script_is_shown_and_not_run(tab: Tab, server: Running) -> None:
    attack = (
        f"{ATTACK}<img src=x onerror='document.title=1'><a hx-get='/v1/jobs' hx-trigger='load'>"
    )
    tried(tab, server, inputs__prompt=attack)
    tab.until(f"{RESULT}.querySelector('article h2')")
    assert tab.run(f"{RESULT}.querySelector('article h2').textContent").startswith(ATTACK)
    assert tab.run("document.title") == "Jumar"
    assert not [url for url in tab.asked if url.endswith("/v1/jobs")]
    opened(tab, server, "", ".jobs a")
    assert ATTACK[:40] in tab.text()


def test_an_error_with_a_script_is_shown_and_not_run(tab: Tab, server: Running) -> None:
    tried(tab, server, inputs__prompt="a", config__seed="1")
    tab.until(f"{RESULT}.querySelector('article')")
    tab.run(
        "(() => { const one = document.getElementById('config.seed'); one.type = 'text';"
        f" one.value = {ATTACK!r} }})()"
    )
    tab.click("#try button.main")
    tab.until(f"{RESULT}.querySelector('.note.failed')")
    assert "<script>alert" in tab.run(f"{RESULT}.innerText")
    assert tab.run(f"{RESULT}.querySelectorAll('script, img').length") == 0


@pytest.mark.parametrize("place", ["#/../v1/jobs", "#//evil.example/x", "#/../../openapi.json"])
def test_a_link_cannot_have_anything_else_shown_as_the_page(
    tab: Tab, server: Running, place: str
) -> None:
    opened(tab, server, place, "#models li")
    assert {url.split("?")[0].removeprefix(server.url) for url in tab.asked} <= {
        "about:blank", "/", "/page/page.css", "/page/page.js", "/page/htmx.js", "/page/icon.svg",
        "/page/home", "/page/state", "/page/now",
    } | {f"/{place}"}  # fmt: skip


def test_nothing_is_asked_of_another_machine(tab: Tab, server: Running) -> None:
    tried(tab, server, inputs__prompt="a")
    tab.until(f"{RESULT}.querySelector('article')")
    ours = (server.url, "data:", "blob:", "about:")
    assert [url for url in tab.asked if not url.startswith(ours)] == []


# ---- keys ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def locked(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("locked"), "toy", keys=Keys([KEY])) as running:
        yield running.ready()


def test_a_key_is_asked_for_kept_in_the_tab_and_sent_with_everything(
    tab: Tab, locked: Running
) -> None:
    opened(tab, locked, "", "#key[open]")
    assert "asks for a key" in tab.text()
    assert "toy" not in tab.text()
    tab.fill("key-value", "wrong")
    tab.click("#key button.main")
    tab.until("document.getElementById('key-why').textContent.includes('not known')")
    tab.until("document.getElementById('key').open")
    tab.fill("key-value", KEY)
    tab.click("#key button.main")
    tab.until("document.querySelector('.cards')")

    tab.run("location.hash = '#/models/toy'")
    tab.fill("inputs.prompt", "a rope")
    tab.click("#try button.main")
    tab.until(f"{RESULT}.querySelector('audio').src.startsWith('blob:')")
    kept = (
        "Object.entries(sessionStorage).filter(([, value]) => value === KEPT).map(([key]) => key)"
    )
    assert tab.run(kept.replace("KEPT", repr(KEY))) == ["jumar-key"]
    assert tab.run("[localStorage.length, document.cookie]") == [0, ""]
    assert not [url for url in tab.asked if KEY in url]


def test_a_key_can_be_forgotten(tab: Tab, locked: Running) -> None:
    opened(tab, locked, "", "#state")
    tab.run(f"sessionStorage.setItem('jumar-key', {KEY!r})")
    opened(tab, locked, "", ".cards")
    tab.run("sessionStorage.setItem('jumar-key', 'not any more')")
    tab.until("document.getElementById('key').open")
    tab.click("#key button.quiet")
    tab.until("document.getElementById('key').open")
    assert tab.run("sessionStorage.getItem('jumar-key')") is None


# ---- anybody can use it --------------------------------------------------------------------------


def test_it_is_used_with_the_keyboard_alone(tab: Tab, server: Running) -> None:
    opened(tab, server, "#/models/toy", "#try[data-model='toy']")
    for _ in range(20):
        if tab.run("document.activeElement.name") == "inputs.prompt":
            break
        tab.press("Tab", windowsVirtualKeyCode=9)
    tab.send("Input.insertText", text="by keyboard")
    tab.press("Enter", windowsVirtualKeyCode=13, modifiers=2)  # with Ctrl
    tab.until(f"{RESULT}.innerText.includes('by keyboard')")


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_window(tab: Tab, server: Running, width: int) -> None:
    name = start(server, "a rope that is long " * 5 + "w" * 90)
    assert eventually(lambda: is_over(server, name))
    assert job(server, name)["state"] == "succeeded"
    tab.looks(width, 800)
    places = {"": "#models li", f"#/jobs/{name}": "article .when", "#/models/toy": "#try"}
    for place, selector in places.items():
        opened(tab, server, place, selector)
        assert tab.run("document.documentElement.scrollWidth") <= width, place


def test_it_is_dark_where_its_visitor_likes_it_dark(tab: Tab, server: Running) -> None:
    opened(tab, server, "", "#models li")
    shown = "getComputedStyle(document.body).backgroundColor"
    light = tab.run(shown)
    tab.looks(dark=True)
    assert (light, tab.run(shown)) == ("rgb(246, 245, 242)", "rgb(20, 23, 26)")


def test_models_are_found_by_words(tab: Tab, server: Running) -> None:
    opened(tab, server, "", "#models li")
    tab.fill("filter", "WAN image2video")
    shown = "[...document.querySelectorAll('#models li:not([hidden]) b')].map(one => one.innerText)"
    assert sorted(tab.run(shown)) == ["wan2.1-i2v-14b", "wan2.2-i2v-14b"]
    tab.fill("filter", "nothing has this")
    assert tab.run("document.getElementById('none').hidden") is False


# ---- real models ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def studio(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A voice, a painter and a reader."""
    names = ("hibari", "sdxl-digits", "all-minilm-l6-v2")
    with serving(tmp_path_factory.mktemp("studio"), *names) as running:
        for name in names:
            running.ready(name)
        yield running


@pytest.mark.models
def test_what_a_voice_says_can_be_heard_in_the_page(tab: Tab, studio: Running) -> None:
    tried(tab, studio, "hibari", inputs__prompt="A rope holds whoever trusts it.")
    sound = f"{RESULT}.querySelector('audio')"
    assert 1 < tab.until(f"{sound}.duration") < 6
    assert tab.run(f"{sound}.play().then(() => true)")
    tab.until(f"{sound}.currentTime > 0.1")


@pytest.mark.models
def test_what_a_painter_draws_can_be_seen_in_the_page(tab: Tab, studio: Running) -> None:
    tried(tab, studio, "sdxl-digits", inputs__prompt="a red seven", config__seed="7")
    assert tab.until(f"{RESULT}.querySelector('figure img').naturalWidth") == 32
    assert "denoise_loop" in tab.text()


@pytest.mark.models
def test_texts_are_shown_with_how_alike_they_are(tab: Tab, studio: Running) -> None:
    tried(tab, studio, "all-minilm-l6-v2", inputs__texts="a rope\n\na cord\nthe weather")
    tab.until(f"{RESULT}.querySelector('.heat')")
    cells = tab.run(f"[...{RESULT}.querySelectorAll('.heat td')].map(one => +one.innerText)")
    assert len(cells) == 9
    assert cells[0] == cells[4] == cells[8] == 1
    assert cells[1] > cells[2], "a rope is more of a cord than of the weather"
