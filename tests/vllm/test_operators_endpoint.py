"""`GET /jumar/operators`: the workers say what they bound; nobody decides it a second time."""

from __future__ import annotations

import asyncio
import os

import psutil
import pytest
from tests.vllm.serving import serve

pytest.importorskip("vllm")

from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from vllm.v1.engine.exceptions import EngineDeadError

from jumar.vllm.operators import MIDDLEWARE, endpoint


class Engine:
    """A client of an engine whose workers answer with `said`."""

    def __init__(self, said):
        self.said, self.asked = said, []

    async def collective_rpc(self, method):
        self.asked.append(method)
        if isinstance(self.said, Exception):
            raise self.said
        if self.said is None:
            await asyncio.Event().wait()
        return self.said


def client(said):
    async def ping(request):
        return PlainTextResponse("pong")

    app = Starlette(routes=[Route("/ping", ping)])
    app.add_middleware(endpoint.Endpoint)
    app.state.engine_client = Engine(said)
    return TestClient(app), app.state.engine_client


def test_each_worker_is_asked_and_its_answer_passed_on():
    said = [{"rank": 0, "operators": []}, {"rank": 1, "operators": []}]
    http, engine = client(said)
    answer = http.get("/jumar/operators")
    assert answer.status_code == 200
    assert answer.json() == {"vllm": answer.json()["vllm"], "processes": said}
    assert engine.asked == ["jumar_operators"]


def test_other_paths_pass_and_ask_nobody():
    http, engine = client([])
    assert http.get("/ping").text == "pong"
    assert http.get("/jumar/operators/more").status_code == 404
    assert http.post("/jumar/operators").status_code == 404
    assert engine.asked == []


def test_an_engine_that_has_ended_is_told():
    answer = client(EngineDeadError())[0].get("/jumar/operators")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "not_ready"


def test_what_a_worker_could_not_say_is_told_with_its_words():
    why = "Call to collective_rpc method failed: /e/1.json is not a record of evidence"
    answer = client(Exception(why))[0].get("/jumar/operators")
    assert answer.status_code == 500
    assert answer.json()["error"]["message"] == why


def test_workers_that_do_not_answer_are_told(monkeypatch):
    monkeypatch.setattr(endpoint, "PATIENCE_S", 0.05)
    answer = client(None)[0].get("/jumar/operators")
    assert answer.status_code == 503
    assert "did not answer" in answer.json()["error"]["message"]


def test_a_server_takes_it_by_its_path_and_keeps_what_it_was_told():
    try:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    except ModuleNotFoundError:  # vLLM 0.33
        from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = make_arg_parser(FlexibleArgumentParser())
    assert MIDDLEWARE in parser.parse_args([]).middleware
    assert {MIDDLEWARE, "acme.Own"} <= {*parser.parse_args(["--middleware", "acme.Own"]).middleware}
    module, _, name = MIDDLEWARE.rpartition(".")
    assert getattr(__import__(module, fromlist=[name]), name) is endpoint.Endpoint


def test_a_server_shows_what_its_worker_bound(tiny, tmp_path):
    """`vllm serve`, and a worker in a process of its own."""
    with serve(tiny("qwen3"), tmp_path / "log") as server:
        said = server.client.get("/jumar/operators").json()
        (worker,) = said["processes"]
        assert worker["pid"] in [one.pid for one in psutil.Process(server.process.pid).children()]
    emulated = bool(os.environ.get("JUMAR_EMULATE_NPU"))
    ours = "torch_npu" if emulated else "reference"
    assert {one["operator"]: one["implementation"] for one in worker["operators"]}.items() >= {
        "rms_norm": ours,
        "silu_and_mul": ours,
        "rotary_embedding": ours,
    }.items()
    assert worker["emulated"] is emulated
    told = [line for line in (tmp_path / "log").read_text().splitlines() if "Operators on" in line]
    assert len(told) == 1 and "EngineCore" in told[0]
