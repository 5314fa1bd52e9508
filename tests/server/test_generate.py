"""POST /v1/generate: what a caller gets, and what he is refused with."""

from __future__ import annotations

import base64
import errno
import json
import os
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.contracts import requests
from jumar.contracts.results import GenerateResult
from jumar.server.contracts import GenerateBody

ENVELOPE = {"code", "message", "type", "param", "hint"}


def error(response: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = response.json()["error"]
    assert set(found) == ENVELOPE
    return found


def test_a_result_comes_with_links_to_its_artifacts(server: Running) -> None:
    response = server.ask("one and two")
    assert response.status_code == 200
    result = GenerateResult.model_validate(response.json())
    contents = [server.client.get(artifact.path).content for artifact in result.outputs]
    assert contents == [b"one and two/0", b"one and two/1"]
    assert result.metadata.parity is not None
    assert result.metadata.parity.status == "unverified"
    assert (result.metadata.queue_wait_ms or -1) >= 0


def test_no_path_of_the_server_is_in_an_answer(server: Running) -> None:
    assert str(server.desk.settings.data) not in server.ask().text


def test_artifacts_come_in_the_body_where_that_is_asked_for(server: Running) -> None:
    (artifact,) = server.ask("hello", transport="inline_bytes").json()["outputs"]
    assert artifact["transport"] == "inline_bytes"
    assert base64.b64decode(artifact["data_b64"]) == b"hello/0"


def test_an_artifact_has_its_type_its_tag_and_ranges(server: Running) -> None:
    (artifact,) = server.ask("hello").json()["outputs"]
    whole = server.client.get(artifact["path"])
    assert whole.headers["content-type"] == "audio/wav"
    assert whole.headers["etag"] == f'"{artifact["sha256"]}"'
    part = server.client.get(artifact["path"], headers={"Range": "bytes=1-3"})
    assert (part.status_code, part.content) == (206, b"ell")
    assert part.headers["content-range"] == "bytes 1-3/7"


@pytest.mark.parametrize("digest", ["0" * 64, "jobs", "..%2F..%2Fjobs"])
def test_what_is_no_artifact_is_not_found(server: Running, digest: str) -> None:
    response = server.client.get(f"/v1/artifacts/{digest}")
    assert (response.status_code, error(response)["code"]) == (404, "not_found")


def test_a_failed_run_is_an_error_with_its_report_beside_it(server: Running) -> None:
    response = server.ask("fail")
    assert response.status_code == 500
    assert error(response)["code"] == "run_failed"
    report = response.json()["metadata"]
    assert report["error_detail"]["cause"] == (
        "RuntimeError: aclnnSomething failed, error code is 561002"
    )
    assert response.json()["outputs"] == []


def test_a_deadline_travels_with_the_request(server: Running) -> None:
    response = server.ask("slow", deadline_ms=100)
    assert (response.status_code, error(response)["code"]) == (504, "deadline_exceeded")


@pytest.mark.parametrize("timeout", ["soon", [1], True, -1])
def test_a_deadline_hides_no_timeout_that_is_wrong(server: Running, timeout: Any) -> None:
    response = server.ask("hello", deadline_ms=5000, config={"timeout": timeout})
    found = error(response)
    assert (response.status_code, found["param"]) == (400, "config.timeout")


REFUSED = [
    (b"{oops", 400, "invalid_request", None),
    (b"[1]", 400, "invalid_request", None),
    (b'{"model": NaN}', 400, "invalid_request", None),
    (b"\xff\xfe", 400, "invalid_request", None),
    (b"{}", 400, "invalid_request", "model"),
    (b'{"model": 7}', 400, "invalid_request", "model"),
    (b'{"model": "toy", "imputs": {}}', 400, "unknown_key", "imputs"),
    (b'{"model": "toy", "deadline_ms": 0}', 400, "invalid_request", "deadline_ms"),
    (b'{"model": "toi", "inputs": {"prompt": "a"}}', 404, "model_not_found", "model"),
    (b'{"model": "toy", "inputs": {"promt": "a"}}', 400, "unknown_key", "inputs.promt"),
    (b'{"model": "toy", "inputs": {}}', 400, "invalid_input", "inputs.prompt"),
    (
        b'{"model": "toy", "inputs": {"prompt": "unreadable"}}',
        400, "invalid_input", "inputs.prompt",
    ),
    (
        b'{"model": "toy", "inputs": {"prompt": "a"}, "config": {"speed": 99}}',
        400, "invalid_value", "config.speed",
    ),
    (
        b'{"model": "toy", "task": "text2image", "inputs": {"prompt": "a"}}',
        422, "unsupported_surface", "task",
    ),
    (
        b'{"model": "toy", "inputs": {"prompt": "a"}, "backend": "npu:3"}',
        400, "invalid_value", "backend",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "code", "param"), REFUSED)
def test_a_wrong_request_is_refused_in_the_one_envelope(
    server: Running, body: bytes, status: int, code: str, param: str | None
) -> None:
    response = server.client.post("/v1/generate", content=body)
    found = error(response)
    assert (response.status_code, found["code"], found["param"]) == (status, code, param)
    assert found["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("route", "body", "param"),
    [
        ("embeddings", {"input": 7}, "input"),
        ("embeddings", {"input": [None]}, "input.0"),
        ("classify", {"input": ["a", 7]}, "input.1"),
        ("classify", {"input": [{"text": "a"}]}, "input.0.text_pair"),
        (
            "classify",
            {"input": "a", "options": {"window": {"tokens": "x"}}},
            "options.window.tokens",
        ),
    ],
)
def test_what_is_wrong_in_a_field_of_several_types_is_named_as_the_caller_wrote_it(
    server: Running, route: str, body: dict[str, Any], param: str
) -> None:
    response = server.client.post(f"/v1/{route}", json={"model": "toy", **body})
    found = error(response)
    assert (response.status_code, found["param"]) == (400, param)
    assert found["message"].startswith(f"{param}: ")


@pytest.mark.parametrize("tokens", [[1, 2], [[1, 2], [3]]])
def test_tokens_in_the_place_of_texts_are_told_so(server: Running, tokens: list[Any]) -> None:
    """Clients send them that count with a tokenizer of their own."""
    response = server.client.post("/v1/embeddings", json={"model": "toy", "input": tokens})
    found = error(response)
    assert (response.status_code, found["param"]) == (400, "input")
    assert "tokens" in found["message"] and "texts" in (found["hint"] or "")


HALVES = [
    {"\ud800": 1, "model": "toy"},
    {"model": "\ud800"},
    {"model": "toy", "inputs": {"prompt": "\udfff"}},
    {"model": "toy", "inputs": {"prompt": "a", "\ud800": 1}},
    {"model": "toy", "inputs": {"prompt": "a"}, "config": {"\ud800": 1}},
    {"model": "toy", "inputs": {"prompt": "a"}, "config": {"request_id": "\ud800"}},
    {"model": "whisper-tiny.en", "inputs": {"audio": ["/\ud800"]}},
]


@pytest.mark.parametrize("async_run", [False, True])
@pytest.mark.parametrize("body", HALVES, ids=str)
def test_half_a_character_is_refused_wherever_it_stands(
    server: Running, body: dict[str, Any], async_run: bool
) -> None:
    """Names of fields and files, identifiers: none of them could be written down or sent back."""
    escaped = json.dumps({**body, "async_run": async_run})
    raw = json.dumps({**body, "async_run": async_run}, ensure_ascii=False)
    for content in (escaped.encode(), raw.encode("utf-8", "surrogatepass")):
        response = server.client.post("/v1/generate", content=content)
        assert (response.status_code, error(response)["code"]) == (400, "invalid_request")


def test_both_halves_of_a_character_are_one(server: Running) -> None:
    """As every client that writes ASCII sends what lies beyond the 16 bits of an escape."""
    content = json.dumps({"model": "toy", "inputs": {"prompt": "\N{GRINNING FACE}"}})
    assert "\\ud83d" in content
    response = server.client.post("/v1/generate", content=content)
    assert response.status_code == 200
    (artifact,) = response.json()["outputs"]
    assert server.client.get(artifact["path"]).content == "\N{GRINNING FACE}/0".encode()


@pytest.mark.parametrize("levels", [101, 400, 900, 100_000])
@pytest.mark.parametrize("brackets", ["[]", '{"a":}'], ids=str)
def test_json_without_a_bottom_is_refused(server: Running, levels: int, brackets: str) -> None:
    opening, closing = brackets[:-1], brackets[-1]
    prompt = opening * levels + "1" + closing * levels
    content = f'{{"model": "toy", "inputs": {{"prompt": {prompt}}}}}'
    response = server.client.post("/v1/generate", content=content.encode())
    assert (response.status_code, error(response)["code"]) == (400, "invalid_request")


THE_OPERATORS = [
    ("toy", {"prompt": "a"}, {"output_dir": "/tmp/elsewhere"}),
    ("toy", {"prompt": "a", "model_path": "/tmp/weights"}, {}),
    ("vllm-omni-speech", {"prompt": "a"}, {"server_url": "http://169.254.169.254/"}),
    ("vllm-omni-speech", {"prompt": "a"}, {"api_key": "secret"}),
    ("whisper-tiny.en", {"audio": "/etc/passwd"}, {}),
    ("whisper-tiny.en", {"audio": "../../etc/passwd"}, {}),
    ("whisper-tiny.en", {"audio": "http://169.254.169.254/latest"}, {}),
    ("whisper-tiny.en", {"audio": "file:///etc/passwd"}, {}),
]


@pytest.mark.parametrize(("model", "inputs", "config"), THE_OPERATORS)
def test_what_is_the_operators_no_caller_may_name(
    server: Running, model: str, inputs: dict[str, Any], config: dict[str, Any]
) -> None:
    body = {"model": model, "inputs": inputs, "config": config}
    response = server.client.post("/v1/generate", json=body)
    assert (response.status_code, error(response)["code"]) == (403, "not_permitted")


def test_nothing_is_told_of_files_that_may_not_be_named(server: Running) -> None:
    said = [
        server.client.post(
            "/v1/generate", json={"model": "whisper-tiny.en", "inputs": {"audio": file}}
        )
        for file in ("/etc/passwd", "/etc/no-such-file")
    ]
    assert said[0].json() == said[1].json()


def test_weights_added_by_a_caller_are_refused_unless_the_folder_is_allowed(
    server: Running,
) -> None:
    response = server.ask(adapters=[{"kind": "lora", "path": "/etc/passwd"}])
    assert (response.status_code, error(response)["param"]) == (403, "adapters.0.path")


def test_a_file_under_an_allowed_folder_is_read_and_no_link_leads_out(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "noise.wav").write_bytes(b"no sound at all")
    (inside / "out.wav").symlink_to("/etc/passwd")
    with serving(tmp_path / "data", allow_roots=(inside,)) as server:
        body = {"model": "whisper-tiny.en", "inputs": {"audio": str(inside / "noise.wav")}}
        read = server.client.post("/v1/generate", json=body)
        assert error(read)["code"] == "invalid_input"
        body["inputs"] = {"audio": str(inside / "out.wav")}
        assert server.client.post("/v1/generate", json=body).status_code == 403


UPLOADS = {
    "base64": {"json": {
        "model": "whisper-tiny.en", "inputs": {"audio": "data:audio/wav;base64,bm8gc291bmQ="}}},
    "multipart": {
        "data": {"request": json.dumps({"model": "whisper-tiny.en"})},
        "files": {"audio": ("noise.wav", b"no sound", "audio/wav")}},
}  # fmt: skip


@pytest.mark.parametrize("how", UPLOADS)
def test_an_upload_is_read_named_upload_and_gone_afterwards(server: Running, how: str) -> None:
    response = server.client.post("/v1/generate", **UPLOADS[how])  # type: ignore[arg-type]
    assert response.status_code == 400
    assert error(response)["message"].startswith("upload")
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


@pytest.mark.parametrize(
    "asked", [{"model": "whisper-tinny"}, {"model": "whisper-tiny.en", "inptus": {}}]
)
def test_an_upload_of_a_request_that_is_refused_is_gone_too(
    server: Running, asked: dict[str, object]
) -> None:
    files = {"audio": ("noise.wav", b"no sound", "audio/wav")}
    response = server.client.post("/v1/generate", data={"request": json.dumps(asked)}, files=files)
    assert response.status_code in (400, 404)
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


def test_base64_that_is_none_is_told_so(server: Running) -> None:
    body = {"model": "whisper-tiny.en", "inputs": {"audio": "data:audio/wav;base64,%%%"}}
    found = error(server.client.post("/v1/generate", json=body))
    assert (found["code"], found["param"]) == ("invalid_input", "inputs.audio")


def test_a_preset_is_applied_as_everywhere(server: Running) -> None:
    """The peer takes `preset` over HTTP and drops it."""
    origins = server.ask(config={"preset": "fast"}).json()["metadata"]["config_origins"]
    assert origins["preset"] == "caller"
    assert server.ask(config={"preset": "no-such"}).status_code == 400


@pytest.mark.parametrize(
    "config", [{}, {"preset": "fast"}, {"preset": "quality", "num_inference_steps": 3}], ids=str
)
def test_over_http_a_request_resolves_to_what_it_is_in_python(
    server: Running, config: dict[str, Any]
) -> None:
    """The peer's defaults differ between the two, and its presets hold in one of them."""
    inputs = {"prompt": "a red seven"}
    body = GenerateBody(model="sdxl-digits", inputs=inputs, config=dict(config))
    admitted = server.desk.request(body, "req_1")
    here = server.desk.visit(admitted, None, threading.Event()).resolved
    there = catalog.resolve(requests.text2image("sdxl-digits", **inputs, **config))
    ours = {"request_id": here.config["request_id"]}
    assert here.config == {**there.config, **ours}
    assert here.origins == {**there.origins, "request_id": here.origins["request_id"]}


def test_an_unknown_path_or_method_has_the_envelope_too(server: Running) -> None:
    assert error(server.client.get("/nothing"))["code"] == "not_found"
    response = server.client.put("/v1/jobs")
    assert (response.status_code, error(response)["code"]) == (405, "invalid_request")


def test_aliases_of_the_operator_stand_for_models(tmp_path: Path) -> None:
    with serving(tmp_path, "toy", aliases={"tts-1": "toy"}) as server:
        body = {"model": "tts-1", "inputs": {"prompt": "a"}}
        answer = server.client.post("/v1/generate", json=body)
        assert answer.json()["metadata"]["model"] == "toy"


def test_the_report_on_the_servers_disk_is_the_callers(server: Running) -> None:
    told = server.ask().json()["metadata"]
    file = server.desk.shelf.folder / f"{told['run_id']}.report.json"
    assert eventually(file.exists), "it is written when the caller has his answer"
    stored = json.loads(file.read_text(encoding="utf-8"))
    for field in ("trace_id", "parity", "queue_wait_ms", "enqueued_at_ms", "run_id", "timings"):
        assert stored[field] == told[field]


def test_several_files_of_one_name_are_a_list_and_none_is_dropped(server: Running) -> None:
    body = json.dumps({"model": "qwen-image-edit-plus", "inputs": {"prompt": "a"}, "task": "edit"})
    files = [("image", ("a.png", b"one")), ("image[]", ("b.png", b"two"))] * 2
    refused = server.client.post("/v1/generate", data={"request": body}, files=files)
    assert "4 files, more than 3" in error(refused)["message"]
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


def test_a_form_with_another_field_is_refused(server: Running) -> None:
    body = json.dumps({"model": "toy", "inputs": {"prompt": "a"}})
    refused = server.client.post(
        "/v1/generate", data={"request": body, "prompt": "b"}, files={"x": b""}
    )
    assert (refused.status_code, error(refused)["param"]) == (400, "prompt")


def test_a_request_refused_for_its_last_file_leaves_none_of_the_others(server: Running) -> None:
    first = "data:image/png;base64," + base64.b64encode(b"a").decode()
    inputs = {"prompt": "a", "image": [first, "data:image/png;base64,!"]}
    refused = server.client.post(
        "/v1/generate", json={"model": "qwen-image-edit-plus", "inputs": inputs}
    )
    assert error(refused)["param"] == "inputs.image.1"
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


def test_an_upload_that_no_disk_takes_is_said_and_nothing_of_it_stays(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    request = json.dumps({"model": "toy", "inputs": {"prompt": "hello"}})
    response = server.client.post(
        "/v1/generate", data={"request": request}, files={"audio": ("a.wav", b"sound")}
    )
    found = error(response)
    assert (response.status_code, found["code"]) == (507, "output_failed")
    assert "No space left" in found["message"]
    assert str(server.desk.settings.data) not in response.text
    assert list((server.desk.settings.data / "uploads").iterdir()) == []
