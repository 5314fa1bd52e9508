"""Jobs over HTTP and WebSocket: started, followed, stopped, looked at again."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import httpx
import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import PATIENT, Running
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from jumar.engine.jobs import Job


def start(server: Running, prompt: str = "hello", **more: Any) -> str:
    response = server.ask(prompt, async_run=True, **more)
    assert response.status_code == 202
    found = response.json()
    assert response.headers["location"] == f"/v1/jobs/{found['id']}"
    return str(found["id"])


def job(server: Running, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get(f"/v1/jobs/{name}").json()
    return found


def is_over(server: Running, name: str) -> bool:
    return job(server, name)["state"] in ("succeeded", "failed", "cancelled")


def heard(server: Running, name: str, **headers: str) -> list[tuple[str, dict[str, Any]]]:
    """The events of a job, until the server ends the stream."""
    found = []
    with server.client.stream("GET", f"/v1/jobs/{name}/events", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            if line.startswith("event: "):
                kind = line.removeprefix("event: ")
            if line.startswith("data: "):
                found.append((kind, json.loads(line.removeprefix("data: "))))
    return found


def test_a_job_is_a_record_that_ends_with_the_result(server: Running) -> None:
    name = start(server, "hello")
    assert eventually(lambda: is_over(server, name))
    found = job(server, name)
    assert found["state"] == "succeeded"
    assert server.client.get(found["result"]["outputs"][0]["path"]).content == b"hello/0"
    assert found["result"]["metadata"]["job_id"] == name
    assert Job.model_validate(found).over


NO_COUNTS = ["²", "٣", "-1", "0", "1001", "1.0", "", "9" * 5000]


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/videos"])
@pytest.mark.parametrize("limit", NO_COUNTS, ids=lambda text: text[:8])
def test_a_list_is_as_long_as_a_number_says_and_nothing_else(
    server: Running, path: str, limit: str
) -> None:
    response = server.client.get(path, params={"limit": limit})
    found = response.json()["error"]
    assert (response.status_code, found["code"], found["param"]) == (400, "invalid_value", "limit")


@pytest.mark.parametrize("last", ["²", "x", "9" * 30, "9" * 5000], ids=lambda text: text[:8])
def test_events_come_all_after_a_number_that_is_none(server: Running, last: str) -> None:
    name = start(server, "hello")
    assert eventually(lambda: is_over(server, name))
    encoded: Any = {"Last-Event-ID": last.encode("latin-1")}
    assert heard(server, name, **encoded) == heard(server, name)


def test_events_come_from_the_first_and_end_with_the_job(server: Running) -> None:
    name = start(server, "hello")
    told = heard(server, name)
    stages = [(kind, data["stage"]) for kind, data in told if kind.startswith("stage_")]
    assert stages == [
        ("stage_started", "speak"),
        ("stage_finished", "speak"),
        ("stage_started", "export"),
        ("stage_finished", "export"),
    ]
    assert told[-1][0] == "job"
    assert told[-1][1]["state"] == "succeeded"


def test_events_of_a_job_that_is_over_come_and_end_at_once(server: Running) -> None:
    """The peer's stream of a finished job never ends."""
    name = start(server, "hello")
    first = heard(server, name)
    again = heard(server, name)
    assert [kind for kind, _ in again if kind != "job"] == [k for k, _ in first if k != "job"]
    assert again[-1][1]["state"] == "succeeded"


def test_who_comes_back_hears_only_what_he_missed(server: Running) -> None:
    name = start(server, "hello")
    heard(server, name)
    missed = heard(server, name, **{"Last-Event-ID": "2"})
    assert [kind for kind, _ in missed] == ["stage_started", "stage_finished", "job"]


def test_a_running_job_is_cancelled_by_delete(server: Running) -> None:
    """The peer answers 200, and the job succeeds all the same."""
    name = start(server, "slow")
    assert eventually(lambda: job(server, name)["state"] == "running")
    assert server.client.delete(f"/v1/jobs/{name}").json()["cancel_requested"]
    assert eventually(lambda: is_over(server, name))
    found = job(server, name)
    assert (found["state"], found["error_detail"]["code"]) == ("cancelled", "cancelled")


def test_a_job_that_waits_is_cancelled_before_it_begins(server: Running) -> None:
    first, second = start(server, "slow"), start(server, "hello")
    server.client.delete(f"/v1/jobs/{second}")
    assert eventually(lambda: job(server, second)["state"] == "cancelled")
    assert job(server, second)["started_at_ms"] is None
    server.client.delete(f"/v1/jobs/{first}")
    assert eventually(lambda: is_over(server, first))


def test_a_job_that_is_over_is_forgotten_by_delete(server: Running) -> None:
    name = start(server)
    assert eventually(lambda: is_over(server, name))
    assert server.client.delete(f"/v1/jobs/{name}").status_code == 200
    assert server.client.get(f"/v1/jobs/{name}").status_code == 404


def test_a_job_is_followed_and_cancelled_over_a_websocket(server: Running) -> None:
    name = start(server, "slow")
    told = []
    url = server.url.replace("http", "ws")
    with connect(f"{url}/v1/jobs/{name}/ws", open_timeout=PATIENT) as socket:
        for message in socket:
            told.append(json.loads(message))
            if told[-1]["type"] == "step" and not any(one["type"] == "error" for one in told):
                socket.send("not understood")
            if told[-1]["type"] == "error":
                socket.send(json.dumps({"action": "cancel"}))
    assert told[-1]["type"] == "job"
    assert told[-1]["data"]["state"] == "cancelled"
    assert next(one for one in told if one["type"] == "error")["error"]["hint"] == (
        '{"action": "cancel"}'
    )


def test_a_websocket_to_no_job_is_refused_with_the_envelope(server: Running) -> None:
    url = server.url.replace("http", "ws")
    with pytest.raises(InvalidStatus) as refused, connect(f"{url}/v1/jobs/job_none/ws"):
        pass
    response = refused.value.response
    assert response.status_code == 404
    assert json.loads(response.body or b"")["error"]["code"] == "not_found"


def test_jobs_are_listed_newest_first(server: Running) -> None:
    names = [start(server), start(server)]
    assert eventually(lambda: all(is_over(server, name) for name in names))
    listed = server.client.get("/v1/jobs?limit=2").json()["data"]
    assert [one["id"] for one in listed] == names[::-1]
    assert server.client.get("/v1/jobs?state=running").json()["data"] == []


@pytest.mark.parametrize("query", ["state=done", "limit=0", "limit=x", "limit=1001"])
def test_a_list_that_cannot_be_is_refused(server: Running, query: str) -> None:
    response = server.client.get(f"/v1/jobs?{query}")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_value")


def test_the_trace_of_a_job_shows_its_stages(server: Running) -> None:
    name = start(server)
    assert eventually(lambda: is_over(server, name))
    trace = server.client.get(f"/v1/jobs/{name}/trace").json()
    stages = [one["name"] for one in trace["traceEvents"] if one["ph"] == "X"]
    assert stages == ["speak", "export"]


def test_the_trace_of_a_job_that_runs_is_not_there_yet(server: Running) -> None:
    name = start(server, "slow")
    assert server.client.get(f"/v1/jobs/{name}/trace").status_code == 503
    server.client.delete(f"/v1/jobs/{name}")
    assert eventually(lambda: is_over(server, name))


def test_a_wrong_request_leaves_no_job(server: Running) -> None:
    before = server.client.get("/v1/jobs").json()
    response = server.ask(async_run=True, config={"speed": 99})
    assert response.status_code == 400
    assert server.client.get("/v1/jobs").json() == before


def test_a_worker_killed_in_a_job_is_replaced_and_the_job_is_done(server: Running) -> None:
    pid = int(server.ask().json()["metadata"]["worker_id"])
    name = start(server, "slow")
    assert eventually(lambda: job(server, name)["progress"] is not None)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: any(k["id"] == name for k in _running(server)))
    assert eventually(lambda: _again(server, name))
    server.client.delete(f"/v1/jobs/{name}")
    assert eventually(lambda: is_over(server, name))
    report = job(server, name)["result"]["metadata"]
    assert report["worker_id"] not in (None, str(pid))
    assert any("run again: the worker was lost" in text for text in report["warnings"])


def _running(server: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = server.client.get("/v1/jobs?state=running").json()["data"]
    return found


def _again(server: Running, name: str) -> bool:
    """Whether the job has begun a second time."""
    events = server.desk.jobs.store.events(name)
    return sum(told.event == "stage_started" and told.stage == "speak" for _, told in events) == 2


def test_while_a_job_runs_everything_else_answers(server: Running) -> None:
    """The peer's /healthz took 4.6 s during a run of 5 s."""
    name = start(server, "slow")
    assert eventually(lambda: job(server, name)["state"] == "running")
    paths = ("/health", "/health/live", "/healthz", "/readyz", "/metrics", "/v1/models", "/v1/jobs")
    answers = [server.client.get(path) for path in paths for _ in range(5)]
    assert [answer.status_code for answer in answers] == [httpx.codes.OK] * len(answers)
    assert job(server, name)["state"] == "running", "all of it was answered meanwhile"
    server.client.delete(f"/v1/jobs/{name}")
    assert eventually(lambda: is_over(server, name))
