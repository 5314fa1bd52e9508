"""No folder of the server is in what callers are told: its log has them."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.isolate.conftest import eventually
from tests.support import toy
from tests.support.serving import Running

from jumar.contracts.errors import InvalidInput, OutputFailed, RunFailed, WeightsUnavailable
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import ErrorDetail, GenerateResult, RunReport, StageEventRecord
from jumar.engine.jobs import Job
from jumar.server.outward import detail, envelope, event, words

PART = st.text("abcXYZ019-_.", min_size=1, max_size=8).filter(lambda part: set(part) != {"."})
PATHS = st.lists(PART, min_size=2, max_size=6)
AROUND = [
    "Cannot write to {}: the disk is full.",
    "There is no file '{}'.",
    "OSError: [Errno 28] No space left on device: '{}' <- KeyError: 'x'",
    'File "{}", line 7 in forward',
    "({})",
]


@given(PATHS, st.sampled_from(AROUND))
def test_a_path_keeps_its_last_part_only(parts: list[str], around: str) -> None:
    told = words(around.format("/" + "/".join(parts)))
    assert told == around.format(f"…/{parts[-1]}")
    assert words(told) == told


def test_folders_with_spaces_are_gone_where_they_are_quoted() -> None:
    assert words("'/home/Jane Doe/models/a b.bin' is gone") == "'…/a b.bin' is gone"


@pytest.mark.parametrize(
    "text",
    [
        "torch/nn/functional.py:1714 in gelu",
        "audio/wav and 3/4 or/and a/b/c",
        "hf://owner/repo@main is not here",
        "The upstream 'qwen3' says nothing.",
    ],
)
def test_what_is_no_path_of_a_machine_stays(text: str) -> None:
    assert words(text) == text


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http://10.0.0.7:8091 cannot be reached.", "http://… cannot be reached."),
        ("at redis://u:p@db:6379/0: it failed", "at redis://…: it failed"),
        ("(https://a.example/v1/audio/speech)", "(https://…)"),
        ("unix:///run/redis.sock is gone", "unix://… is gone"),
    ],
)
def test_nor_are_addresses_told(text: str, told: str) -> None:
    assert words(text) == told


def test_an_error_of_the_request_says_what_its_caller_wrote() -> None:
    error = InvalidInput("/pictures/of/mine.png is no picture.", param="inputs.image")
    assert envelope(error) == error.envelope()
    ours = WeightsUnavailable("Nothing in /srv/models/x.", hint="Look into /srv/models/x.")
    assert "/srv" not in json.dumps(envelope(ours))


def test_whose_disk_is_full_gets_no_advice_for_the_operator() -> None:
    error = OutputFailed("Cannot write to /srv/a.", hint="Choose another with --out.", param="out")
    assert envelope(error)["error"]["hint"] is envelope(error)["error"]["param"] is None
    assert envelope(RunFailed("It failed.", hint="Try it."))["error"]["hint"] == "Try it."


def test_the_cause_of_an_error_of_the_request_is_the_servers() -> None:
    found = ErrorDetail(
        code="invalid_input", message="/mine.png is none.", cause="OSError: '/srv/uploads/1f.png'"
    )
    told = detail(found)
    assert told is not None
    assert (told.message, told.cause) == ("/mine.png is none.", "OSError: '…/1f.png'")


def test_sound_in_an_event_is_left_alone() -> None:
    told = {"pcm": "/9j/4AAQ/x==", "number": 1}
    sound = StageEventRecord(event="sound", stage="speak", timestamp_ms=0, data=told)
    assert event(sound) is sound


def test_a_full_disk_is_told_to_callers_without_its_folders(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    folder = str(server.desk.settings.data)
    with caplog.at_level(logging.WARNING):
        response = server.ask("disk full")
    assert (response.status_code, response.json()["error"]["code"]) == (507, "output_failed")
    assert response.json()["error"]["message"] == "Cannot write to …/artifacts: the disk is full."
    assert "No space left" in response.json()["metadata"]["error_detail"]["cause"]
    assert folder not in response.text
    assert folder in caplog.text, "the operator is told where"


def test_nor_are_jobs_their_events_and_their_traces(server: Running) -> None:
    folder = str(server.desk.settings.data)
    name = server.ask("disk full", async_run=True).json()["id"]
    heard = server.client.get(f"/v1/jobs/{name}/events").text
    assert "disk is full" in heard
    assert eventually(lambda: server.client.get(f"/v1/jobs/{name}").json()["state"] == "failed")
    shown = [f"/v1/jobs/{name}", f"/v1/jobs/{name}/trace", f"/page/jobs/{name}", "/v1/jobs"]
    for text in (heard, *(server.client.get(path).text for path in shown)):
        assert folder not in text
    stored = server.desk.jobs.store.get(name)
    assert folder in (stored.error or ""), "it is the answer that is cleared"


def test_nor_is_what_the_operator_set(server: Running) -> None:
    config = {"model_path": "/srv/weights", "output_dir": None, "seed": 7}
    seen = {"model_path": "***", "output_dir": None, "seed": 7}
    report = RunReport(
        run_id="r", task="text2audio", model="toy", backend="cpu", config_resolved=config
    )
    shown = server.desk.shown(GenerateResult(outputs=[], metadata=report))
    assert shown.metadata.config_resolved == seen
    asked = GenerateRequest(task="text2audio", model="toy", config=config)
    assert server.desk.public_job(Job(request=asked, backend="cpu"))["request"]["config"] == seen
    assert report.config_resolved == asked.config == config, "what is kept is whole"


def test_nor_is_where_a_worker_stood_that_was_lost(server: Running) -> None:
    report = server.ask("abort").json()["metadata"]
    ended = [one for one in report["stream_events"] if one["event"] == "worker_ended"]
    assert ended and all("…/toy.py" in one["data"]["python"] for one in ended)
    assert str(Path(toy.__file__).parent) not in json.dumps(report)
