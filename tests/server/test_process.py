"""`jumar serve` as an operator runs it: started, stopped, killed, started again."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.isolate.conftest import children_of, eventually, is_alive
from tests.support.redis_server import redis_server
from tests.support.serving import Process

from jumar.cli.app import jumar

Serve = Callable[..., Process]


@pytest.fixture
def serve(site: Path, tmp_path: Path) -> Iterator[Serve]:
    """Starts servers that share a data folder."""
    started: list[Process] = []

    def one(*line: str, **more: bool) -> Process:
        started.append(Process(site, tmp_path / "data", *line, "--device", "cpu", **more))
        return started[-1]

    yield one
    for process in started:
        process.close()


def submit(server: Process, prompt: str) -> str:
    body = {"model": "toy", "inputs": {"prompt": prompt}, "async_run": True}
    return str(server.client.post("/v1/generate", json=body).json()["id"])


def job(server: Process, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get(f"/v1/jobs/{name}").json()
    return found


def descendants(process: int) -> list[int]:
    return [one for child in children_of(process) for one in (child, *descendants(child))]


def test_sigterm_lets_running_work_end_and_leaves_nothing_behind(serve: Serve) -> None:
    server = serve("toy")
    assert eventually(lambda: server.client.get("/readyz").status_code == 200)
    answers: list[Any] = []
    body = {"model": "toy", "inputs": {"prompt": "slow"}, "deadline_ms": 4000}
    caller = threading.Thread(
        target=lambda: answers.append(server.client.post("/v1/generate", json=body))
    )
    caller.start()
    busy = {'jumar_requests_pending{model="toy"} 1.0', 'jumar_queue_depth{model="toy"} 0.0'}
    assert eventually(lambda: busy <= set(server.client.get("/metrics").text.splitlines()))
    children = descendants(server.pid)
    assert len(children) >= 3, "zygote, guard, worker"
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    caller.join(60)
    assert answers[0].json()["error"]["code"] == "deadline_exceeded", (
        "its own end, not the server's"
    )
    assert not any(is_alive(child) for child in children)


def test_jobs_survive_a_server_that_is_killed(serve: Serve) -> None:
    server = serve("toy")
    running, waiting = submit(server, "slow"), submit(server, "hello")
    assert eventually(lambda: job(server, running)["progress"] is not None)
    children = descendants(server.pid)
    server.send(signal.SIGKILL)
    server.wait()
    assert eventually(lambda: not any(is_alive(child) for child in children))

    again = serve("toy")
    lost = job(again, running)
    assert (lost["state"], lost["error_detail"]["code"]) == ("failed", "run_failed")
    assert lost["error"] == "The server ended while the job ran."
    assert eventually(lambda: job(again, waiting)["state"] == "succeeded")
    told = again.client.get(f"/v1/jobs/{running}/events").text.splitlines()
    data = [line.removeprefix("data: ") for line in told if line.startswith("data: ")]
    assert json.loads(data[-1])["state"] == "failed"


def test_servers_on_one_redis_see_stop_and_inherit_each_others_jobs(
    serve: Serve, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with redis_server(tmp_path_factory.mktemp("redis")) as redis:
        line = ("toy", "--job-store", redis.url, "--grace", "0.5")
        first, second = serve(*line), serve(*line)
        assert second.client.get("/readyz").json()["job_store_backend"] == "redis"
        running = submit(first, "slow")
        assert eventually(lambda: job(second, running)["progress"] is not None)
        assert second.client.delete(f"/v1/jobs/{running}").json()["cancel_requested"]
        assert eventually(lambda: job(second, running)["state"] == "cancelled")

        running, waiting = submit(first, "slow"), submit(first, "hello")
        assert eventually(lambda: job(second, running)["state"] == "running")
        first.send(signal.SIGTERM)
        assert first.wait() == 0
        assert job(second, running)["state"] in ("cancelled", "failed")
        assert eventually(lambda: job(second, waiting)["state"] == "succeeded")
        made = job(second, waiting)["result"]["outputs"][0]["path"]
        assert second.client.get(made).content == b"hello/0"
        second.close()


def test_who_does_not_read_the_log_keeps_nobody_waiting(serve: Serve) -> None:
    """A pipe holds 64 KiB, some 400 lines; a write beyond waits for its reader."""
    server = serve("toy", reading=False)
    for _ in range(600):
        assert server.client.get(f"/v1/jobs/{'x' * 100}").status_code == 404
    server.read()
    server.send(signal.SIGTERM)
    assert server.wait() == 0
    assert sum("x" * 100 in line for line in server.said) == 600, "nothing is lost either"


REFUSED = [
    (["toi"], 2, "Unknown model 'toi'"),
    (["toy", "hibari", "--pipeline-cache-size", "1"], 2, "2 models are named"),
    (["--host", "0.0.0.0"], 2, "every machine that reaches it"),
    (["--api-key-file", "/no/such/file"], 2, "Cannot read the API keys"),
    (["--model-aliases", "/no/such/file"], 2, "Cannot read the aliases"),
    (["--job-store", "http://127.0.0.1"], 2, "A job store is a Redis"),
    (["--job-store", "redis://:sesame@127.0.0.1:1/0"], 4, "at redis://127.0.0.1:1/0 failed"),
    (["toy", "--device", "cuda:99"], 3, "cuda:99 cannot be used here"),
]


@pytest.mark.parametrize(("line", "code", "said"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_cannot_be_served_is_said_before_anything_listens(
    toys: None, tmp_path: Path, line: list[str], code: int, said: str
) -> None:
    done = CliRunner().invoke(jumar, ["serve", *line, "--data-dir", str(tmp_path)])
    assert done.exit_code == code, done.output
    assert said in done.output


def test_a_port_that_is_taken_is_said(toys: None, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = ["serve", "--port", str(port), "--data-dir", str(tmp_path)]
        done = CliRunner().invoke(jumar, line)
    assert done.exit_code == 2, done.output
    assert f"Cannot listen on 127.0.0.1:{port}." in done.output


def test_a_file_that_is_no_socket_is_neither_taken_nor_removed(toys: None, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    done = CliRunner().invoke(jumar, ["serve", "--uds", str(file), "--data-dir", str(tmp_path)])
    assert done.exit_code == 2, done.output
    assert f"Cannot listen on {file}." in done.output
    assert file.read_text() == "mine"


def test_the_socket_of_another_server_is_not_taken_away(toys: None, tmp_path: Path) -> None:
    place = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as caller:
        other.bind(str(place))
        other.listen()
        line = ["serve", "--uds", str(place), "--data-dir", str(tmp_path / "data")]
        done = CliRunner().invoke(jumar, line)
        assert done.exit_code == 2, done.output
        assert "another server does" in done.output
        caller.connect(str(place))  # it is still there


def test_a_folder_for_data_that_cannot_be_is_said(toys: None, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(jumar, ["serve", "--data-dir", str(tmp_path / "file" / "data")])
    assert done.exit_code == 4, done.output
    assert "There is no folder" in done.output
