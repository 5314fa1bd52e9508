"""Who may ask, how much, and what is written of it."""

from __future__ import annotations

import http.client
import json
import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from jumar.contracts.errors import InvalidInput, NotPermitted, UnknownModel
from jumar.engine.service import Service
from jumar.server.settings import Keys, read_aliases, refuse_open_door

KEY = "sk-the-one-key-that-opens"


@pytest.fixture(scope="module")
def locked(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    with serving(tmp_path_factory.mktemp("locked"), "toy", keys=Keys([KEY])) as running:
        yield running.ready()


BAD = [{}, {"Authorization": f"Bearer {KEY}x"}, {"Authorization": KEY}, {"X-API-Key": "é"}]
GOOD = [{"Authorization": f"Bearer {KEY}"}, {"authorization": f"bearer {KEY}"}, {"X-API-Key": KEY}]
GUARDED = ["/v1/models", "/v1/jobs", "/metrics", "/openapi.json", "/nothing"]


@pytest.mark.parametrize("path", GUARDED)
@pytest.mark.parametrize("headers", BAD, ids=str)
def test_without_a_known_key_nothing_is_told(
    locked: Running, path: str, headers: dict[str, str]
) -> None:
    encoded = {name: value.encode() for name, value in headers.items()}
    response = locked.client.get(path, headers=encoded)  # type: ignore[arg-type]
    assert (response.status_code, response.json()["error"]["code"]) == (401, "invalid_api_key")
    assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("headers", GOOD, ids=str)
def test_a_key_opens(locked: Running, headers: dict[str, str]) -> None:
    assert locked.client.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/health/live", "/healthz", "/readyz"])
def test_probes_need_no_key(locked: Running, path: str) -> None:
    assert locked.client.get(path).status_code == 200


def test_a_websocket_needs_a_key_as_well(locked: Running) -> None:
    """The peer ran a generation over a WebSocket without one."""
    url = locked.url.replace("http", "ws") + "/v1/jobs/job_none/ws"
    with pytest.raises(InvalidStatus) as refused, connect(url):
        pass
    assert refused.value.response.status_code == 401
    with (
        pytest.raises(InvalidStatus) as found,
        connect(url, additional_headers={"Authorization": f"Bearer {KEY}"}),
    ):
        pass
    assert found.value.response.status_code == 404, "the door is open, and there is no such job"


def test_no_key_is_ever_in_the_log(locked: Running, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for name, key in (("seen", KEY), ("not", "wrong-key")):
            headers = {"X-API-Key": key, "X-Request-ID": name}
            locked.client.get("/v1/models", headers=headers)
        assert eventually(lambda: {"seen": 200, "not": 401}.items() <= logged(caplog).items())
    assert KEY not in caplog.text
    assert "wrong-key" not in caplog.text


def logged(caplog: pytest.LogCaptureFixture) -> dict[str, int]:
    """Names of requests, and their statuses."""
    records = [record for record in caplog.records if record.name == "jumar.access"]
    lines = [json.loads(record.message) for record in records]
    return {line["request_id"]: line["status"] for line in lines}


@given(st.lists(st.text(min_size=1, max_size=9), min_size=1, max_size=4), st.text(max_size=9))
def test_a_key_is_known_exactly_where_it_is_one_of_them(keys: list[str], shown: str) -> None:
    assert Keys(keys).admit(shown) == (shown in keys)
    assert all(Keys(keys).admit(key) for key in keys)


def test_keys_are_read_one_a_line(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# of the team\n\n  abc  \ndef\n")
    keys = Keys.read(file)
    assert keys.admit("abc")
    assert keys.admit("def")
    assert not keys.admit("# of the team")
    file.write_text("# nobody\n")
    with pytest.raises(InvalidInput, match="no API key"):
        Keys.read(file)
    with pytest.raises(InvalidInput, match="Cannot read"):
        Keys.read(tmp_path / "none")


@pytest.mark.parametrize(
    "key", ["clé", "sk one", "sk-one # of the team", "sk\tone", "sk\x7f", "鍵"]
)
def test_a_key_that_no_caller_could_send_is_refused_by_its_line(tmp_path: Path, key: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# of the team\nabc\n{key}\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"Line 3 of .* is no API key") as refused:
        Keys.read(file)
    assert key not in str(refused.value)


def test_the_mark_that_some_editors_begin_a_file_with_is_no_part_of_a_key(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("abc\n", encoding="utf-8-sig")
    assert Keys.read(file).admit("abc")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_other_machines_are_not_listened_to_without_keys(host: str) -> None:
    with pytest.raises(NotPermitted, match="--api-key-file|every machine"):
        refuse_open_door(host, None, no_auth=False)
    refuse_open_door(host, Keys(["a"]), no_auth=False)
    refuse_open_door(host, None, no_auth=True)
    refuse_open_door("127.0.0.1", None, no_auth=False)


def test_aliases_that_stand_for_no_model_are_refused_at_the_start(tmp_path: Path) -> None:
    file = tmp_path / "aliases.yaml"
    file.write_text("tts-1: toy\nembed: minilm\n")
    assert read_aliases(file) == {"tts-1": "toy", "embed": "all-minilm-l6-v2"}
    file.write_text("tts-1: toi\n")
    with pytest.raises(UnknownModel):
        read_aliases(file)
    file.write_text("- toy\n")
    with pytest.raises(InvalidInput):
        read_aliases(file)


ELSEWHERE = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Host": "evil.example"},
    {"Host": "[evil"},
    {"Host": "evil.example", "Origin": "http://evil.example"},  # DNS rebinding
]


@pytest.fixture(scope="module")
def here(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """As `jumar serve` is by default: on loopback, without keys."""
    with serving(tmp_path_factory.mktemp("here"), only_here=True) as running:
        yield running


@pytest.mark.parametrize("headers", ELSEWHERE, ids=str)
def test_a_page_of_another_site_cannot_use_the_visitors_server(
    here: Running, headers: dict[str, str]
) -> None:
    """A form of any page may post text/plain to loopback; no preflight asks before."""
    response = here.client.post("/v1/generate", content=b"{}", headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (403, "not_permitted")


def test_a_websocket_of_another_site_is_refused_too(here: Running) -> None:
    url = here.url.replace("http", "ws") + "/v1/jobs/job_none/ws"
    with pytest.raises(InvalidStatus) as refused, connect(url, origin="https://evil.example"):  # type: ignore[arg-type]
        pass
    assert refused.value.response.status_code == 403


def test_the_servers_own_page_and_programs_on_this_machine_are_answered(here: Running) -> None:
    port = here.url.rpartition(":")[2]
    assert here.client.get("/v1/jobs").status_code == 200
    assert here.client.get("/v1/jobs", headers={"Origin": here.url}).status_code == 200
    assert here.client.get("/v1/jobs", headers={"Host": f"localhost:{port}"}).status_code == 200


# ---- how much ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def narrow(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One request waits at most, and a body has at most 1,000 bytes."""
    service = Service(queue=1)
    folder = tmp_path_factory.mktemp("narrow")
    with serving(folder, "toy", service=service, max_request_bytes=1000) as running:
        yield running.ready()


def sent(server: Running, chunks: list[bytes]) -> http.client.HTTPResponse:
    """A body without a length: chunked."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=60)
    connection.request("POST", "/v1/generate", iter(chunks), encode_chunked=True)
    return connection.getresponse()


def test_a_body_over_the_limit_is_refused_whether_its_length_is_said_or_not(
    narrow: Running,
) -> None:
    said = narrow.client.post("/v1/generate", content=b" " * 1001)
    assert (said.status_code, said.json()["error"]["code"]) == (413, "request_too_large")
    unsaid = sent(narrow, [b" " * 600] * 2)
    assert (unsaid.status, json.loads(unsaid.read())["error"]["code"]) == (413, "request_too_large")
    assert narrow.client.post("/v1/generate", content=b" " * 1000).status_code == 400


class Asking:
    """Callers that wait for an answer of ten seconds, and can go away."""

    def __init__(self, server: Running) -> None:
        self._server = server
        self._open: list[http.client.HTTPConnection] = []

    def one(self) -> None:
        before = self.pending
        address = self._server.url.removeprefix("http://")
        self._open.append(http.client.HTTPConnection(address, timeout=60))
        body = json.dumps({"model": "toy", "inputs": {"prompt": "slow"}})
        self._open[-1].request("POST", "/v1/generate", body)
        assert eventually(lambda: self.pending > before)

    def go(self) -> None:
        for connection in self._open:
            connection.close()

    @property
    def pending(self) -> int:
        return sum(served.pending for served in self._server.desk.house.models())


def test_a_full_queue_is_429_at_once_and_says_when_to_come_again(narrow: Running) -> None:
    asking = Asking(narrow)
    asking.one()
    assert eventually(lambda: not narrow.desk.house.models()[0].waiting)
    asking.one()
    refused = narrow.ask()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "overloaded")
    assert refused.json()["error"]["type"] == "rate_limit_error"
    assert int(refused.headers["retry-after"]) >= 1
    asking.go()
    assert eventually(lambda: asking.pending == 0), "who goes away frees his place"
    assert narrow.ask().status_code == 200


def test_a_caller_that_goes_away_stops_his_run(narrow: Running) -> None:
    asking = Asking(narrow)
    asking.one()
    assert eventually(lambda: not narrow.desk.house.models()[0].waiting)
    asking.go()
    assert eventually(lambda: asking.pending == 0)
    ended = 'jumar_requests_total{method="POST",route="/v1/generate",status="499"}'
    assert eventually(lambda: ended in narrow.client.get("/metrics").text)


# ---- names ---------------------------------------------------------------------------------------


def test_a_request_keeps_the_name_that_its_caller_gave_it(narrow: Running) -> None:
    response = narrow.client.get("/health", headers={"X-Request-ID": "mine-1"})
    assert response.headers["x-request-id"] == "mine-1"


@pytest.mark.parametrize("name", ["", "a b", "x" * 129, '"quoted"'])
def test_a_name_that_could_break_a_log_is_replaced(narrow: Running, name: str) -> None:
    response = narrow.client.get("/health", headers={"X-Request-ID": name})
    assert response.headers["x-request-id"].startswith("req_")


def test_the_name_is_in_the_report_of_the_run(narrow: Running) -> None:
    body = {"model": "toy", "inputs": {"prompt": "a"}}
    response = narrow.client.post("/v1/generate", json=body, headers={"X-Request-ID": "mine-2"})
    report = response.json()["metadata"]
    assert (report["trace_id"], report["config_resolved"]["request_id"]) == ("mine-2", "mine-2")


def test_every_reference_of_the_openapi_document_is_there(narrow: Running) -> None:
    document = narrow.client.get("/openapi.json").json()
    references = set()

    def look(part: Any) -> None:
        if isinstance(part, dict):
            references.update([part["$ref"]] if "$ref" in part else [])
            for inner in part.values():
                look(inner)
        for inner in part if isinstance(part, list) else []:
            look(inner)

    look(document)
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert references <= known
    for path, methods in document["paths"].items():
        for method in methods:
            said = narrow.client.request(method, path.replace("{", "").replace("}", ""))
            assert said.status_code != httpx.codes.METHOD_NOT_ALLOWED
            assert said.status_code == 404 or said.status_code < 500
