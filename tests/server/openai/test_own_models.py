"""OpenAI's own client, against models that run here."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from tests.isolate.conftest import eventually
from tests.support import actor
from tests.support.serving import Running


def seen(datum: Any) -> dict[str, Any]:
    """What the actor was asked for, from a picture that it drew."""
    found: dict[str, Any] = json.loads(base64.b64decode(datum.b64_json))
    return found


def png(alpha: int | None = None) -> bytes:
    """Four by four pixels; the upper half as transparent as `alpha` says."""
    image = pytest.importorskip("PIL.Image")
    if alpha is None:
        picture = image.new("L", (4, 4), 255)
    else:
        picture = image.new("RGBA", (4, 4), (9, 9, 9, 255))
        picture.paste((9, 9, 9, alpha), (0, 0, 4, 2))
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return file.getvalue()


def test_pictures_come_as_content_and_as_links_to_it(
    server: Running, client: openai.OpenAI
) -> None:
    answer = client.images.generate(model="actor", prompt="a hat", n=2, size="64x32")
    assert answer.data is not None and len(answer.data) == 2
    asked = seen(answer.data[0])
    assert (asked["task"], asked["prompt"]) == ("text2image", "a hat")
    assert (asked["config"]["width"], asked["config"]["height"]) == (64, 32)
    assert answer.data[0].url is not None and answer.data[0].b64_json is not None
    fetched = httpx.get(answer.data[0].url).content
    assert fetched == base64.b64decode(answer.data[0].b64_json)
    links = client.images.generate(model="actor", prompt="a hat", response_format="url")
    assert links.data is not None and links.data[0].b64_json is None


def test_keys_of_the_model_stand_beside_openais(client: openai.OpenAI) -> None:
    answer = client.images.generate(model="actor", prompt="a hat", extra_body={"seed": 7})
    assert answer.data is not None and seen(answer.data[0])["config"]["seed"] == 7


def test_a_picture_is_drawn_again(client: openai.OpenAI) -> None:
    picture = png()
    answer = client.images.edit(
        model="actor", image=picture, prompt="with a hat", extra_body={"strength": 0.25}
    )
    assert answer.data is not None
    asked = seen(answer.data[0])
    assert asked["task"] == "image2image"
    assert bytes.fromhex(asked["image"]) == picture
    assert asked["config"]["strength"] == 0.25


def test_all_tasks_of_a_model_are_asked_of_one_load(server: Running, client: openai.OpenAI) -> None:
    """Else an edit would put another model out of its place."""
    client.images.generate(model="actor", prompt="a hat")
    client.images.edit(model="actor", image=png(), prompt="a hat")
    client.images.edit(model="actor", image=png(), mask=png(), prompt="a hat")
    assert [one.loaded.manifest.id for one in server.desk.house.models()] == ["actor"]


def test_a_transparent_part_of_a_mask_is_made_anew_as_is_a_white_one(
    client: openai.OpenAI,
) -> None:
    image = pytest.importorskip("PIL.Image")

    def mask_as_the_model_has_it(mask: bytes) -> bytes:
        answer = client.images.edit(model="actor", image=png(), mask=mask, prompt="a hat")
        assert answer.data is not None
        asked = seen(answer.data[0])
        assert asked["task"] == "inpaint"
        return bytes.fromhex(asked["mask"])

    transparent = image.open(io.BytesIO(mask_as_the_model_has_it(png(alpha=0)))).convert("L")
    assert transparent.tobytes() == b"\xff" * 8 + bytes(8)
    assert mask_as_the_model_has_it(png()) == png(), "it has no transparency"


def test_a_video_is_a_link(server: Running, client: openai.OpenAI) -> None:
    answer: Any = client.post(
        "/videos/generations",
        body={"model": "actor", "prompt": "a hat falls", "num_frames": 9},
        cast_to=object,
    )
    video = httpx.get(answer["data"][0]["url"])
    assert video.headers["content-type"] == "video/mp4"
    assert video.json()["config"]["num_frames"] == 9


@pytest.mark.parametrize(
    ("form", "mime", "begins"),
    [
        ("wav", "audio/wav", b"RIFF"),
        ("flac", "audio/flac", b"fLaC"),
        ("pcm", "audio/pcm; rate=8000; channels=1", actor.SAMPLES),
    ],
)
def test_speech_in_a_format(client: openai.OpenAI, form: Any, mime: str, begins: bytes) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="actor", voice="default", input="Hello.", response_format=form, speed=1.5
    ) as answer:
        assert answer.headers["content-type"] == mime
        assert answer.read().startswith(begins)
        if form != "pcm":  # it leaves before the report is written
            assert answer.headers["x-jumar-golden"] == "unverified"
            assert answer.headers["x-jumar-device"] == "cpu"


def raw(prompt: str) -> dict[str, str]:
    return {"model": "actor", "input": prompt, "response_format": "pcm"}


def test_raw_speech_leaves_piece_by_piece(server: Running, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = raw(f"wait {gate}")
    with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        pieces = answer.iter_raw()
        first = next(pieces)
        assert not gate.exists(), "the second piece is not made yet"
        gate.touch()
        assert first + b"".join(pieces) == actor.SAMPLES


def test_a_voice_that_dies_while_it_speaks_repeats_nothing(server: Running, tmp_path: Path) -> None:
    body = raw(f"die {tmp_path / 'dead'}")
    answer = server.client.post("/v1/audio/speech", json=body)
    assert (tmp_path / "dead").exists()
    assert answer.content == actor.SAMPLES


def test_speech_that_breaks_off_has_no_end(server: Running) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        server.client.post("/v1/audio/speech", json=raw("break"))


@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_speech_whose_file_no_disk_takes_is_heard_to_its_end(
    server: Running, caplog: pytest.LogCaptureFixture, stream_format: str
) -> None:
    """The file is written after the last piece: nothing that the caller asked for is missing."""
    body = {**raw("disk full"), "stream_format": stream_format}
    answer = server.client.post("/v1/audio/speech", json=body)
    assert answer.status_code == 200
    if stream_format == "audio":
        assert answer.content == actor.SAMPLES
    else:
        assert answer.text.rstrip().endswith('data: {"type": "speech.audio.done"}')
    assert "is not kept" in caplog.text
    whole = server.client.post("/v1/audio/speech", json={**body, "response_format": "wav"})
    assert whole.status_code == 507, "a file is what was asked for"


def test_a_listener_who_goes_away_stops_the_voice(server: Running, tmp_path: Path) -> None:
    body = raw(f"wait {tmp_path / 'never'}")
    with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        next(answer.iter_raw())
    assert eventually(lambda: not any(one.pending for one in server.desk.house.models()))


def heard(server: Running, body: dict[str, str]) -> list[dict[str, Any]]:
    """What is told of a speech in events."""
    events = []
    body = {"model": "actor", "stream_format": "sse", **body}
    with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            if line:
                events.append(json.loads(line.removeprefix("data: ")))
    return events


def sound_of(events: list[dict[str, Any]]) -> bytes:
    assert {one["type"] for one in events[:-1]} == {"speech.audio.delta"}
    return b"".join(base64.b64decode(one["audio"]) for one in events[:-1])


def test_speech_comes_as_events(server: Running) -> None:
    file = heard(server, {"input": "Hello.", "response_format": "wav"})
    assert (sound_of(file), file[-1]) == (actor.wav(), {"type": "speech.audio.done"})
    raw_events = heard(server, {"input": "say it", "response_format": "pcm"})
    assert sound_of(raw_events) == actor.SAMPLES
    assert len(raw_events) == 3, "two pieces and the end"
    assert {one["sample_rate"] for one in raw_events[:-1]} == {actor.RATE}


def test_openais_client_reads_the_events(client: openai.OpenAI) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="actor", voice="default", input="Hello.", response_format="pcm", stream_format="sse"
    ) as answer:
        kinds = [json.loads(line[6:])["type"] for line in answer.iter_lines() if line]
    assert kinds == ["speech.audio.delta", "speech.audio.delta", "speech.audio.done"]


def test_an_event_leaves_before_the_next_piece_is_made(server: Running, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    body = {**raw(f"wait {gate}"), "stream_format": "sse"}
    with server.client.stream("POST", "/v1/audio/speech", json=body) as answer:
        lines = answer.iter_lines()
        assert "speech.audio.delta" in next(lines)
        assert not gate.exists(), "the second piece is not made yet"
        gate.touch()
        assert "speech.audio.done" in "".join(lines)


def test_speech_that_breaks_off_has_the_error_as_its_last_event(server: Running) -> None:
    body = {**raw("break"), "stream_format": "sse"}
    heard = b""
    with (
        pytest.raises(httpx.RemoteProtocolError),
        server.client.stream("POST", "/v1/audio/speech", json=body) as answer,
    ):
        for piece in answer.iter_raw():
            heard += piece
    last = json.loads(heard.decode().rstrip().rpartition("data: ")[2])
    assert last["error"]["code"] == "run_failed"


@pytest.mark.parametrize("form", ["json", "text", "srt", "vtt", "verbose_json"])
def test_a_transcript_in_a_format(client: openai.OpenAI, form: Any) -> None:
    answer: Any = client.audio.transcriptions.create(
        model="actor", file=("hello.wav", actor.wav()), response_format=form
    )
    text = answer if isinstance(answer, str) else answer.text
    assert "Hello." in text
    assert ("-->" in text) == (form in ("srt", "vtt"))
    if form == "verbose_json":
        assert (answer.language, answer.duration, answer.segments[0].end) == ("en", 0.5, 0.4)
        assert answer.words is None


def test_words_have_times_where_they_are_asked_for(client: openai.OpenAI) -> None:
    answer = client.audio.transcriptions.create(
        model="actor",
        file=("hello.wav", actor.wav()),
        response_format="verbose_json",
        timestamp_granularities=["word"],
    )
    assert answer.words is not None
    assert [(one.word, one.start) for one in answer.words] == [("Hello.", 0.1)]


def test_models_are_openais_list_and_cards(client: openai.OpenAI) -> None:
    listed = {model.id: model for model in client.models.list()}
    assert listed["actor"].object == "model"
    assert listed["actor"].model_dump()["golden"]["status"] == "unverified"
    assert client.models.retrieve("actor").id == "actor"
    long_name = "sentence-transformers/all-MiniLM-L6-v2"
    assert client.models.retrieve(long_name).id == "all-minilm-l6-v2"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("acter")
    assert caught.value.code == "model_not_found"


def speak(client: openai.OpenAI, **more: Any) -> Any:
    line = {"model": "actor", "voice": "default", "input": "Hello.", **more}
    return client.audio.speech.create(**line)


@pytest.mark.parametrize(
    ("more", "error", "code", "param"),
    [
        ({"model": "acter"}, openai.NotFoundError, "model_not_found", "model"),
        ({"model": "mute"}, openai.UnprocessableEntityError, "unsupported_surface", "model"),
        ({"voice": "alloy"}, openai.BadRequestError, "invalid_value", "voice"),
        ({"speed": 9.0}, openai.BadRequestError, "invalid_value", "speed"),
        ({"response_format": "mp3"}, openai.BadRequestError, "invalid_value", "response_format"),
        ({"response_format": "aac"}, openai.BadRequestError, "invalid_request", "response_format"),
        ({"extra_body": {"sede": 1}}, openai.BadRequestError, "unknown_key", "sede"),
        (
            {"extra_body": {"output_dir": "/etc"}},
            openai.PermissionDeniedError,
            "not_permitted",
            "output_dir",
        ),
        ({"input": "fail"}, openai.InternalServerError, "run_failed", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_envelope(
    client: openai.OpenAI, more: dict[str, Any], error: type[openai.APIStatusError], code: str,
    param: str | None,
) -> None:  # fmt: skip
    with pytest.raises(error) as caught:
        speak(client, **more)
    assert (caught.value.code, caught.value.param) == (code, param)


def test_what_is_wrong_is_told_by_the_field_that_was_written(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.images.generate(model="actor", prompt="a hat", size="1020x8192")
    error: Any = caught.value.body
    assert error["param"] == "size"
    assert error["message"].startswith("size (")
    assert "Nearest: 1016 or 1024. Also: size (height)" in error["hint"]


@pytest.mark.parametrize(("field", "value"), [("n", 2), ("size", "32x32")])
def test_an_edit_ignores_no_field(client: openai.OpenAI, field: str, value: Any) -> None:
    """This model's edits have neither a size nor several pictures."""
    more: Any = {field: value}
    with pytest.raises(openai.BadRequestError) as caught:
        client.images.edit(model="actor", image=png(), prompt="with a hat", **more)
    assert caught.value.param == field


def test_an_unknown_field_is_refused_with_the_nearest(server: Running) -> None:
    body = {"model": "actor", "prompt": "a hat", "sise": "64x64"}
    error = server.client.post("/v1/images/generations", json=body).json()["error"]
    assert "'size'" in error["hint"]


@pytest.mark.parametrize("quality", ["hd", "high"])
def test_what_no_model_here_can_honour_is_refused(client: openai.OpenAI, quality: Any) -> None:
    with pytest.raises(openai.BadRequestError, match="quality"):
        client.images.generate(model="actor", prompt="a hat", quality=quality)


def test_a_form_without_its_file_is_refused_and_leaves_no_upload(server: Running) -> None:
    fields = {"model": "actor", "prompt": "a hat"}
    files = {"mask": ("m.png", png(alpha=0))}
    refused = server.client.post("/v1/images/edits", data=fields, files=files)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "image")
    uploads = server.desk.settings.data / "uploads"
    assert list(uploads.iterdir()) == []


def test_what_stands_once_cannot_stand_twice(server: Running) -> None:
    mask = ("mask", ("m.png", png(alpha=0)))
    files = [("image", ("i.png", png())), mask, mask]
    fields = {"model": "actor", "prompt": "a hat"}
    refused = server.client.post("/v1/images/edits", data=fields, files=files)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "mask")
    sound = ("file", ("a.wav", actor.wav()))
    refused = server.client.post(
        "/v1/audio/transcriptions", data={"model": "actor"}, files=[sound, sound]
    )
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "file")
    pictures = [("image[]", ("i.png", png()))] * 2
    refused = server.client.post("/v1/images/edits", data=fields, files=pictures)
    assert refused.status_code == 400, "the model takes one picture"
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


@pytest.mark.parametrize("route", ["chat/completions", "images/generations", "audio/speech"])
@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"model": null}', b'{"model": [1]}', b"\xff"]
)
def test_a_body_without_a_model_is_the_callers_mistake(
    server: Running, route: str, body: bytes
) -> None:
    headers = {"content-type": "application/json"}
    refused = server.client.post(f"/v1/{route}", content=body, headers=headers)
    assert refused.status_code == 400, refused.text


@pytest.mark.parametrize("route", ["images/edits", "audio/transcriptions"])
@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=x"])
def test_a_broken_form_is_the_callers_mistake(server: Running, route: str, kind: str) -> None:
    refused = server.client.post(
        f"/v1/{route}", content=b"--x\r\nnothing", headers={"content-type": kind}
    )
    assert refused.status_code == 400, refused.text


@pytest.mark.parametrize(
    ("route", "name"),
    [("audio/transcriptions", "file"), ("images/edits", "image"), ("videos", "input_reference")],
)
def test_a_file_that_came_as_text_is_told_from_a_field_that_there_is_not(
    server: Running, route: str, name: str
) -> None:
    """`-F file=hello.wav`, where `-F file=@hello.wav` was meant."""
    fields = {"model": (None, "actor"), "prompt": (None, "a hat"), name: (None, "hello.wav")}
    refused = server.client.post(f"/v1/{route}", files=fields).json()["error"]
    assert (refused["code"], refused["param"]) == ("invalid_request", name)
    assert f"{name}=@" in refused["hint"]


HALF = b"\\ud800"


@pytest.mark.parametrize("route", ["generate", "audio/transcriptions", "images/edits", "videos"])
@pytest.mark.parametrize(
    ("name", "value"),
    [(HALF, b"x"), (b"model", HALF), (b"prompt", HALF), (b'file"; filename="a' + HALF, b"x")],
)
def test_half_a_character_in_a_form_is_the_callers_mistake(
    server: Running, route: str, name: bytes, value: bytes
) -> None:
    """A form names its encoding, and some encodings have halves of characters."""
    kind = "multipart/form-data; boundary=x; charset=unicode_escape"
    head = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n--x--\r\n'
    refused = server.client.post(
        f"/v1/{route}", content=head % (name, value), headers={"content-type": kind}
    )
    assert refused.status_code == 400, refused.text
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


def test_a_file_of_the_server_cannot_be_named(server: Running) -> None:
    fields = {"model": "actor", "audio": (None, "/etc/hostname")}
    refused = server.client.post("/v1/audio/transcriptions", files=fields)
    assert refused.status_code in (400, 403), refused.text


def test_chat_is_for_other_servers_models(client: openai.OpenAI) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.chat.completions.create(model="actor", messages=[])
    assert caught.value.code == "unsupported_surface"
    with pytest.raises(openai.NotFoundError):
        client.completions.create(model="gpt-4", prompt="Hello")
