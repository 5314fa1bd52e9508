"""The page as a server gives it out: open where it may be, closed where it must be, only text."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from click.testing import CliRunner
from tests.isolate.conftest import eventually
from tests.reporting.test_html import ATTACK, Page
from tests.server.test_jobs import is_over, start
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.catalog.manifest import Param
from jumar.cli.serve import command
from jumar.runtime.families.remote.service import Service
from jumar.server.desk import Desk
from jumar.server.forwarding.upstreams import Upstream, Upstreams
from jumar.server.page.forms import Field, groups
from jumar.server.page.shell import FILES
from jumar.server.routes import ROUTES
from jumar.server.settings import Keys

KEY = "sk-of-the-page"
ACCESS = "jumar.access"
FRAGMENTS = ["/page/home", "/page/now", "/page/state", "/page/models/toy", "/page/cards/toy",
             "/page/jobs/job_none"]  # fmt: skip


@pytest.fixture(scope="module")
def locked(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("locked"), "toy", keys=Keys([KEY])) as running:
        yield running.ready()


def page(server: Running, path: str) -> Page:
    response = server.client.get(path)
    assert response.status_code == 200, response.text
    return Page(response.text)


def links(found: Page, part: str) -> list[dict[str, str | None]]:
    return [attrs for attrs in found.all("a") if part in (attrs.get("href") or "")]


# ---- who may see what ----------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", *FILES])
def test_the_shell_needs_no_key_since_browsers_send_none(locked: Running, path: str) -> None:
    assert locked.client.get(path).status_code == 200


@pytest.mark.parametrize("path", FRAGMENTS)
def test_a_fragment_needs_a_key(locked: Running, path: str) -> None:
    refused = locked.client.get(path)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    shown = locked.client.get(path, headers={"Authorization": f"Bearer {KEY}"})
    assert shown.status_code == (404 if path.endswith("none") else 200)


def test_the_shell_tells_nothing_of_the_server(locked: Running) -> None:
    text = "".join(locked.client.get(path).text for path in ("/", "/page/page.js"))
    assert "toy" not in text
    assert KEY not in text


def test_without_the_page_there_is_nothing_at_its_addresses(tmp_path: Any) -> None:
    with serving(tmp_path, page=False, keys=Keys([KEY])) as server:
        headers = {"X-API-Key": KEY}
        for path in ("/", "/page/page.js", "/page/home"):
            assert server.client.get(path).status_code == 401
            assert server.client.get(path, headers=headers).status_code == 404
        assert server.client.get("/v1/models", headers=headers).status_code == 200


def test_what_an_open_page_asks_for_again_and_again_is_not_in_the_log(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    def paths() -> set[str]:
        return {json.loads(one.message)["path"] for one in caplog.records if one.name == ACCESS}

    with caplog.at_level(logging.INFO, ACCESS):
        for path in (*FRAGMENTS, "/v1/models"):
            server.client.get(path)
        assert eventually(lambda: "/v1/models" in paths())
    assert paths() == {"/page/jobs/job_none", "/v1/models"}, "what fails is in it"


def test_the_page_changes_nothing_by_itself(server: Running) -> None:
    """What it changes goes through the routes, which have one way to resolve a request."""
    for path in ("/", *FRAGMENTS):
        assert server.client.post(path).status_code == 405
    assert not [row.path for row in ROUTES if row.path.startswith("/page")]


# ---- what browsers may do ------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", *FILES, *FRAGMENTS[:5]])
def test_nothing_but_the_servers_own_files_may_be_used(server: Running, path: str) -> None:
    headers = server.client.get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert (policy["default-src"], policy["script-src"]) == ("'none'", "'self'")
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"


def test_no_file_names_another_machine(server: Running) -> None:
    """A server without a way out shows the same page. (`w3.org` is the name of SVG, no address.)"""
    for path in ("/", "/page/page.css", "/page/page.js", "/page/icon.svg", *FRAGMENTS[:5]):
        text = server.client.get(path).text.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""(https?:)?//[\w-]+\.|url\(|@import""", text), path


def test_the_frame_has_no_script_or_style_within(server: Running) -> None:
    parsed = page(server, "/")
    assert all((one.get("src") or "").startswith("/page/") for one in parsed.all("script"))
    assert parsed.all("style") == []
    for found in (parsed, *(page(server, path) for path in FRAGMENTS[:5])):
        for tag, attrs in found.tags:
            assert "style" not in attrs, tag
            assert not [name for name in attrs if name.startswith("on")], tag


def test_addresses_of_files_change_with_the_files(server: Running) -> None:
    """They may be kept for ever."""
    sources = [str(one["src"]) for one in page(server, "/").all("script")]
    assert all(re.fullmatch(r"/page/\w+\.js\?[0-9a-f]{12}", one) for one in sources)
    assert "immutable" in server.client.get(sources[0]).headers["cache-control"]
    assert server.client.get("/page/home").headers["cache-control"] == "no-store"


# ---- what it shows -------------------------------------------------------------------------------


def test_models_devices_and_jobs_are_on_the_first_page(server: Running) -> None:
    name = start(server, "a rope")
    assert eventually(lambda: is_over(server, name))
    found = page(server, "/page/home")
    assert links(found, f"#/jobs/{name}")
    assert len(links(found, "#/models/toy")) == 2, "where it is loaded, and in the list"
    text = " ".join(found.text)
    for said in ("ready", "goldens unverified", "cpu", "GiB", "a rope", "succeeded", "hibari"):
        assert said in text, said


def test_an_emulated_device_is_never_shown_as_hardware(server: Running) -> None:
    (served,) = server.desk.house.models()
    before = (served.device, served.device_class)
    try:
        served.device, served.device_class = "npu:0", "npu-emulated"
        for path in ("/page/home", "/page/models/toy", "/page/cards/toy"):
            assert "npu:0 (emulated)" in page(server, path).text, path
        served.device_class = "npu"
        assert "npu:0" in page(server, "/page/cards/toy").text
    finally:
        served.device, served.device_class = before


def test_a_report_is_drawn_with_what_was_made(server: Running) -> None:
    name = start(server, "hoarse")
    assert eventually(lambda: is_over(server, name))
    found = page(server, f"/page/jobs/{name}")
    assert {"speak", "export", "The voice is hoarse."} <= set(found.text)
    (sound,) = found.all("audio")
    made = server.client.get(f"/v1/jobs/{name}").json()["result"]["outputs"][0]
    assert sound["data-file"] == made["path"]
    assert str(server.desk.shelf.folder) not in " ".join(found.text), "no path of the server's"


def test_a_job_that_is_over_is_not_asked_for_again(server: Running) -> None:
    slow, quick = start(server, "slow"), start(server, "a")
    assert page(server, f"/page/jobs/{slow}").classed("job")[0]["hx-get"] == f"/page/jobs/{slow}"
    server.client.delete(f"/v1/jobs/{slow}")
    assert eventually(lambda: is_over(server, quick))
    assert "hx-get" not in page(server, f"/page/jobs/{quick}").classed("job")[0]


def test_a_failed_job_shows_its_error_and_what_to_do(server: Running) -> None:
    name = start(server, "fail")
    assert eventually(lambda: is_over(server, name))
    found = page(server, f"/page/jobs/{name}")
    detail = server.client.get(f"/v1/jobs/{name}").json()["error_detail"]
    assert found.classed("failed")
    assert detail["code"] in found.text
    assert any(detail["message"] in text for text in found.text)


@pytest.mark.parametrize("path", ["/page/models/hibbari", "/page/models/toy?task=text2adio"])
def test_what_there_is_not_is_told_with_the_nearest(server: Running, path: str) -> None:
    error = server.client.get(path).json()["error"]
    assert "Did you mean" in error["hint"]


# ---- whatever callers wrote is text --------------------------------------------------------------


def harmless(found: Page) -> None:
    assert found.all("script") == found.all("img") == []
    assert not [name for _, attrs in found.tags for name in attrs if name.startswith("on")]


def test_a_prompt_is_only_text(server: Running) -> None:
    name = start(server, ATTACK)
    assert eventually(lambda: is_over(server, name))
    for path in (f"/page/jobs/{name}", "/page/home", "/page/now"):
        found = page(server, path)
        harmless(found)
        assert any(ATTACK in text for text in found.text), path


def test_an_error_is_only_text(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    name = start(server, "fail")
    assert eventually(lambda: is_over(server, name))
    job = server.desk.jobs.store.get(name)
    assert job.error_detail is not None
    for result in (job.result, None):
        worse = {"code": ATTACK, "message": ATTACK, "hint": ATTACK, "cause": ATTACK}
        detail = job.error_detail.model_copy(update=worse)
        if result is not None:
            result.metadata.error, result.metadata.error_detail = ATTACK, detail
        wrong = job.model_copy(update={"result": result, "error_detail": detail})
        monkeypatch.setattr(server.desk.jobs, "get", lambda name, job=wrong: job)
        found = page(server, f"/page/jobs/{name}")
        harmless(found)
        assert sum(ATTACK in text for text in found.text) >= 4


def test_the_name_of_a_model_is_only_text(tmp_path: Any) -> None:
    far = Upstreams({ATTACK: Upstream(Service("http://127.0.0.1:9", None))})
    with serving(tmp_path, upstreams=far) as server:
        home = page(server, "/page/home")
        harmless(home)
        assert ATTACK in home.text
        (link,) = (a for a in links(home, "#/models/%3Cscript"))
        shown = page(server, "/page" + str(link["href"])[1:])
        harmless(shown)
        assert ATTACK in shown.text


# ---- forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [row.id for row in catalog.rows()])
def test_every_model_has_a_form_with_every_key_that_a_caller_may_set(name: str) -> None:
    for spec in catalog.get(name).tasks.values():
        shown = [field for group in groups(spec) for field in group.fields]
        callers = {f"config.{key}" for key, param in spec.config.items() if not param.operator}
        assert len(shown) == len({field.name for field in shown})
        assert {field.name for field in shown} == callers | {f"inputs.{key}" for key in spec.inputs}


def test_a_form_says_ranges_and_defaults(server: Running) -> None:
    found = page(server, "/page/models/sdxl-digits")
    width = next(one for one in found.all("input") if one.get("name") == "config.width")
    assert (width["min"], width["max"], width["step"]) == ("32", "64", "8")
    assert (width["placeholder"], width.get("value")) == ("32", None)
    assert "32 to 64 px, in steps of 8" in found.text
    pictures = page(server, "/page/models/sdxl-digits?task=inpaint").all("input")
    files = {one["name"]: one["accept"] for one in pictures if one.get("type") == "file"}
    assert files == {"inputs.image": "image/*", "inputs.mask": "image/*"}


BOUNDS = [
    ({"type": "integer", "minimum": 1, "maximum": 100}, "1 to 100"),
    ({"type": "number", "minimum": 0, "maximum": 1, "unit": "s"}, "0 to 1 s"),
    ({"type": "integer", "minimum": 16, "maximum": 4096, "step": 8}, "16 to 4,096, in steps of 8"),
    ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "from 0"),
    ({"type": "number", "maximum": 2.5}, "up to 2.5"),
    ({"type": "number", "unit": "dB"}, "dB"),
    ({"type": "text", "maximum": 20_000}, ""),
]


@pytest.mark.parametrize(("param", "said"), BOUNDS, ids=[said for _, said in BOUNDS])
def test_bounds_are_said_in_words(param: dict[str, Any], said: str) -> None:
    assert Field("config", "key", Param(help="", **param)).bounds == said


@pytest.mark.parametrize("more", [(), ("--no-page",)])
def test_the_command_says_where_its_page_is(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    def served(desk: Desk, *, listening: Any, **how: Any) -> None:
        assert desk.settings.page is not bool(more)
        listening("http://127.0.0.1:8100")

    monkeypatch.setattr("jumar.server.running.serve", served)
    monkeypatch.setattr("jumar.server.running.log_to_stderr", lambda level: None)
    found = CliRunner().invoke(command, ["--data-dir", str(tmp_path), *more])
    assert "listens on http://127.0.0.1:8100\n" in found.stderr
    assert ("page: http://127.0.0.1:8100/\n" in found.stderr) is not bool(more)
