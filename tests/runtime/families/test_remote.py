"""Speech of a server: asked for in its own words, listened to before it is passed on."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import speech_server as server
from tests.support.speech_server import Handler, SpeechServer, answering

import jumar
from jumar import catalog, engine
from jumar.contracts.errors import InvalidInput, InvalidValue
from jumar.contracts.requests import GenerateRequest, text2audio
from jumar.contracts.results import GenerateResult
from jumar.runtime.families.remote import client as remote
from jumar.runtime.families.remote.client import Body, Client
from jumar.runtime.families.remote.refusals import message_of
from jumar.runtime.families.remote.service import Service, address

pytest.importorskip("av")

Says = Callable[[Handler], None]
MODEL = "vllm-omni-speech"
ROUTE, ASKED = "/v1/audio/speech", Body({"input": "Hello."})
BUSY = answering(503, {"error": {"message": "The model is loading."}})


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "PAUSES_S", (0.01, 0.01))
    for prefix in ("JUMAR", "OMNIRT"):
        for name in ("VLLM_OMNI_SPEECH_URL", "VLLM_OMNI_API_KEY"):
            monkeypatch.delenv(f"{prefix}_{name}", raising=False)


def ask(url: str, folder: Path, *, prompt: str = "Hello.", **keys: Any) -> GenerateResult:
    with_voice = {key: keys.pop(key) for key in ("audio", "reference_text") if key in keys}
    cancel = keys.pop("cancel", None)
    request = text2audio(MODEL, prompt, **with_voice, server_url=url, **keys)
    return engine.generate(request, out=folder, cancel=cancel)


def failure(result: GenerateResult) -> tuple[str, str]:
    assert result.metadata.error_detail is not None
    return result.metadata.error_detail.code, result.metadata.error_detail.message


def free_port() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_what_the_server_says_becomes_the_file_unchanged(tmp_path: Path) -> None:
    with SpeechServer() as upstream:
        result = ask(upstream.url, tmp_path)
    assert result.ok, result.metadata.error
    (sound,) = result.outputs
    assert Path(sound.path).read_bytes() == server.wav()
    assert (sound.mime, sound.sample_rate, sound.duration_s) == ("audio/wav", 24_000, 0.5)
    assert result.metadata.device == result.metadata.backend == "remote"
    assert result.metadata.memory == {}, "the memory is the server's"


def test_the_request_has_the_fields_of_vllm_omni(tmp_path: Path) -> None:
    config = {"upstream_model": "Qwen/Qwen3-TTS", "voice": "vivian", "language": "English"}
    with SpeechServer() as upstream:
        ask(upstream.url + "/v1/", tmp_path, speed=1.5, task_type="CustomVoice", **config)
    (asked,) = upstream.asked
    assert asked["path"] == "/v1/audio/speech"
    assert asked["body"] == {
        "input": "Hello.",
        "model": "Qwen/Qwen3-TTS",
        "voice": "vivian",
        "language": "English",
        "speed": 1.5,
        "task_type": "CustomVoice",
        "response_format": "wav",
    }
    assert "Authorization" not in asked["headers"]


def test_a_voice_to_imitate_travels_inside_the_request(tmp_path: Path) -> None:
    voice = tmp_path / "voice.wav"
    voice.write_bytes(server.wav())
    with SpeechServer() as upstream:
        result = ask(upstream.url, tmp_path / "out", audio=voice, reference_text="Oh.")
    body = upstream.asked[0]["body"]
    head, _, payload = body["ref_audio"].partition(",")
    assert head in ("data:audio/x-wav;base64", "data:audio/wav;base64")
    assert base64.b64decode(payload) == server.wav() and body["ref_text"] == "Oh."
    assert result.metadata.inputs["audio"] == str(voice)


def test_a_key_is_sent_and_never_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMNIRT_VLLM_OMNI_API_KEY", "sesame")
    with SpeechServer() as upstream:
        result = ask(upstream.url, tmp_path)
    assert upstream.asked[0]["headers"]["Authorization"] == "Bearer sesame"
    assert "sesame" not in result.model_dump_json()
    assert "sesame" not in next(tmp_path.glob("*.report.json")).read_text()


def test_the_variable_names_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SpeechServer() as upstream:
        monkeypatch.setenv("OMNIRT_VLLM_OMNI_SPEECH_URL", upstream.url)
        result = engine.generate(text2audio(MODEL, "Hello."), out=tmp_path)
    assert result.ok
    assert result.metadata.config_origins["server_url"] == "environment OMNIRT_VLLM_OMNI_SPEECH_URL"


@pytest.mark.parametrize(
    ("says", "code", "said"),
    [
        (
            answering(400, {"error": {"message": "Unknown voice 'x'.", "code": 400}}),
            "invalid_request",
            r"refuses the request \(400\): Unknown voice 'x'\.",
        ),
        (
            answering(422, {"detail": [{"loc": ["body", "speed"], "msg": "too fast"}]}),
            "invalid_request",
            "too fast",
        ),
        (answering(401, {"error": "no key"}), "upstream_failed", "answered 401: no key"),
        (answering(404, {"message": "no such model"}), "upstream_failed", "no such model"),
        (answering(429, b"later", "text/plain"), "upstream_failed", "answered 429: later"),
        (answering(500, {"error": {"message": "CUDA"}}), "upstream_failed", "500: CUDA"),
        (answering(307, b""), "upstream_failed", "answered 307"),
        (BUSY, "upstream_failed", "answered 503: The model is loading"),
        (answering(200, b"", "audio/wav"), "upstream_failed", "200 and nothing else"),
        (
            answering(200, {"error": {"message": "no voice"}}, "audio/wav"),
            "upstream_failed",
            "a text and no audio: no voice",
        ),
        (answering(200, b"<html>", "audio/wav"), "upstream_failed", "a text and no audio"),
        (answering(200, b"\x81\x92" * 900, "audio/wav"), "upstream_failed", "no audio"),
        (answering(200, server.wav()[:44], "audio/wav"), "upstream_failed", "without sound"),
        (server.cut_off, "upstream_failed", "ended its answer before its end"),
        (server.hung_up, "upstream_failed", "did not answer"),
    ],
)
def test_what_goes_wrong_there_is_told_in_its_words(
    tmp_path: Path, says: Says, code: str, said: str
) -> None:
    import re

    with SpeechServer(says) as upstream:
        found, message = failure(ask(upstream.url, tmp_path))
    assert found == code
    assert re.search(said, message), message
    assert not list(tmp_path.glob("*.wav"))


def test_nobody_there_is_told_with_the_address(tmp_path: Path) -> None:
    url = free_port()
    assert failure(ask(url, tmp_path)) == ("upstream_failed", f"{url} cannot be reached.")


def test_another_format_than_asked_for_is_no_answer(tmp_path: Path) -> None:
    with SpeechServer() as upstream:
        _, message = failure(ask(upstream.url, tmp_path, response_format="flac"))
    assert message.endswith("was asked for flac and answered wav.")


def test_raw_samples_have_the_rate_of_their_media_type(tmp_path: Path) -> None:
    says = answering(200, b"\1\0" * 800, "audio/pcm;rate=16000")
    with SpeechServer(says) as upstream:
        result = ask(upstream.url, tmp_path, response_format="pcm")
        (sound,) = result.outputs
        assert (sound.sample_rate, sound.duration_s) == (16_000, 0.05)
        assert sound.mime == "audio/L16; rate=16000; channels=1"
    with SpeechServer(answering(200, b"\1\0\1", "audio/pcm")) as upstream:
        _, message = failure(ask(upstream.url, tmp_path, response_format="pcm"))
    assert "half a sample" in message


def test_what_may_pass_is_tried_again_and_told(tmp_path: Path) -> None:
    with SpeechServer(BUSY, server.hung_up, server.speak) as upstream:
        result = ask(upstream.url, tmp_path)
    assert result.ok and len(upstream.asked) == 3
    assert [w.partition(" ")[2][:12] for w in result.metadata.warnings] == [
        "answered 503",
        "did not answ",
    ]


@pytest.mark.parametrize("says", [answering(500, {}), answering(400, {}), server.cut_off])
def test_what_will_not_pass_or_has_begun_is_not_tried_again(tmp_path: Path, says: Says) -> None:
    with SpeechServer(says, server.speak) as upstream:
        assert not ask(upstream.url, tmp_path).ok
    assert len(upstream.asked) == 1


def test_silence_ends_it(tmp_path: Path) -> None:
    with SpeechServer(server.silent) as upstream:
        result = ask(upstream.url, tmp_path, idle_timeout=0.3)
        assert failure(result) == ("upstream_failed", f"{upstream.url} was silent for 0.3 s.")
        assert len(upstream.asked) == 1, "it may be at work: asking again would double that"


def test_a_deadline_ends_it_there_too(tmp_path: Path) -> None:
    with SpeechServer(server.for_ever) as upstream:
        code, message = failure(ask(upstream.url, tmp_path, timeout=0.5))
        assert (code, message) == ("deadline_exceeded", "The deadline passed during generate.")
        assert upstream.gone.wait(10)


def test_a_caller_ends_it_there_too(tmp_path: Path) -> None:
    cancel = threading.Event()
    with SpeechServer(server.silent) as upstream:
        timer = threading.Timer(0.3, cancel.set)
        timer.start()
        code, _ = failure(ask(upstream.url, tmp_path, cancel=cancel))
        assert code == "cancelled" and upstream.gone.wait(10)
        timer.join()


def test_bytes_are_given_out_as_they_arrive() -> None:
    """The second piece is sent only after the first has been received."""
    received = threading.Event()

    def in_step(handler: Handler) -> None:
        handler.begin_pieces()
        handler.piece(server.wav())
        assert received.wait(10)
        handler.piece(b"more")
        handler.piece(b"")

    async def listen(url: str) -> list[bytes]:
        pieces = []
        async with (
            Client(Service(url)) as client,
            client.stream(ROUTE, ASKED) as answer,
        ):
            assert answer.media_type == "audio/wav"
            async for piece in answer:
                pieces.append(piece)
                received.set()
        return pieces

    with SpeechServer(in_step) as upstream:
        pieces = asyncio.run(listen(upstream.url))
    assert b"".join(pieces) == server.wav() + b"more" and pieces[-1] == b"more"


def test_one_client_answers_many_requests_over_its_connections() -> None:
    async def both(url: str) -> list[bytes]:
        async def one(client: Client) -> bytes:
            async with client.stream(ROUTE, ASKED) as answer:
                return b"".join([piece async for piece in answer])

        async with Client(Service(url)) as client:
            return list(await asyncio.gather(one(client), one(client)))

    with SpeechServer(lambda handler: server.slowly(handler, 0.02)) as upstream:
        assert asyncio.run(both(upstream.url)) == [server.wav()] * 2


def test_leaving_early_tells_the_server() -> None:
    async def leave(url: str) -> None:
        async with (
            Client(Service(url)) as client,
            client.stream(ROUTE, ASKED) as answer,
        ):
            await anext(answer.chunks)

    with SpeechServer(server.for_ever) as upstream:
        asyncio.run(leave(upstream.url))
        assert upstream.gone.wait(10)


def test_a_form_carries_the_voice_as_a_file(tmp_path: Path) -> None:
    """SoulX-Podcast's route; what the server receives is read by the standard library."""
    import email

    voice = tmp_path / "voice.wav"
    voice.write_bytes(server.wav())
    request = text2audio("soulx-podcast-1.7b", "Hi.", audio=voice, reference_text="Oh.", top_k=50)
    with SpeechServer() as upstream:
        request.config["server_url"] = upstream.url
        result = engine.generate(request, out=tmp_path / "out")
    assert result.ok, result.metadata.error
    (asked,) = upstream.asked
    assert asked["path"] == "/generate"
    head = f"Content-Type: {asked['headers']['Content-Type']}\r\n\r\n".encode()
    parts = {
        part.get_param("name", header="content-disposition"): part
        for part in email.message_from_bytes(head + asked["raw"]).walk()
        if not part.is_multipart()
    }
    assert parts["prompt_audio"].get_payload(decode=True) == server.wav()
    assert parts["prompt_audio"].get_filename() == "voice.wav"
    fields = {name: part.get_payload() for name, part in parts.items() if name != "prompt_audio"}
    assert fields == {"dialogue_text": "Hi.", "prompt_texts": "Oh.", "seed": "1988", "top_k": "50"}


def test_a_voice_from_an_address_is_read_or_refused(tmp_path: Path) -> None:
    inline = "data:audio/wav;base64," + base64.b64encode(server.wav()).decode()
    with SpeechServer() as upstream:
        assert ask(upstream.url, tmp_path, audio=inline).ok
        assert upstream.asked[0]["body"]["ref_audio"] == inline
        for bad in ("https://a.example/voice.wav", "data:audio/wav;base64,§", "data:text/plain,a"):
            with pytest.raises(InvalidInput):
                ask(upstream.url, tmp_path, audio=bad)


@pytest.mark.parametrize("url", ["ftp://a", "127.0.0.1:8091", "http://", "", "http://u:p@host"])
def test_what_is_no_address_is_refused_before_anything_runs(tmp_path: Path, url: str) -> None:
    if url:
        with pytest.raises(InvalidValue) as refused:
            ask(url, tmp_path / "out")
        assert refused.value.param == "config.server_url"
        assert not (tmp_path / "out").exists()
    else:
        with pytest.raises(InvalidValue):
            address(url)


@pytest.mark.parametrize(
    ("url", "local"),
    [
        ("http://127.0.0.1:1", True),
        ("http://localhost", True),
        ("http://[::1]:1", True),
        ("http://10.0.0.1", False),
        ("http://speech.example", False),
    ],
)
def test_no_proxy_stands_before_this_machine(url: str, local: bool) -> None:
    assert Service(url).is_local is local


def test_a_device_cannot_be_chosen_for_it() -> None:
    with pytest.raises(InvalidValue, match="runs where its server runs") as refused:
        engine.validate(text2audio(MODEL, "Hello.", backend="ascend"))
    assert refused.value.hint == "Leave --backend out."
    with pytest.raises(InvalidValue, match="No server runs hibari"):
        engine.validate(text2audio("hibari", "Hello.", backend="remote"))


def test_a_model_that_is_loaded_asks_its_server_each_time(tmp_path: Path) -> None:
    with SpeechServer() as upstream, jumar.load(MODEL, server_url=upstream.url) as model:
        for voice in ("vivian", "ryan"):
            assert model.generate(prompt="Hello.", voice=voice, out=tmp_path).ok
    assert [asked["body"]["voice"] for asked in upstream.asked] == ["vivian", "ryan"]


def test_a_server_of_ours_can_tell_the_operators_keys() -> None:
    """Over HTTP nobody may choose addresses, files or programs of the machine that answers."""
    config = {"server_url": "http://10.0.0.1", "voice": "vivian", "api_key": "sesame"}
    resolved = catalog.resolve(GenerateRequest(
        task="text2audio", model=MODEL, inputs={"prompt": "a"}, config=config
    ))  # fmt: skip
    assert resolved.operator_keys == ["server_url", "api_key"]


def test_placing_it_imports_neither_torch_nor_a_decoder() -> None:
    import subprocess
    import sys

    code = (
        "import sys\nfrom jumar import engine\nfrom jumar.contracts.requests import text2audio\n"
        f"engine.validate(text2audio({MODEL!r}, 'Hello.'))\n"
        "print({'torch', 'torch_npu', 'av'} & sys.modules.keys())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda c: (
            st.lists(c, max_size=3)
            | st.dictionaries(st.sampled_from(["error", "message", "detail", "x"]), c, max_size=3)
        ),
    )
)
def test_any_json_has_a_message_of_one_short_line(body: Any) -> None:
    import json

    said = message_of(json.dumps(body))
    assert "\n" not in said and len(said) <= 501
