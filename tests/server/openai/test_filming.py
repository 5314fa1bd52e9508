"""Videos as jobs, through OpenAI's own client."""

from __future__ import annotations

import base64
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import Running

PICTURE = b"\x89PNG of a hat"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """OpenAI ended its own service, and so its client warns; others' go on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def made(client: openai.OpenAI, **more: Any) -> Any:
    """A video, once it is made or has failed."""
    return client.videos.create_and_poll(
        model="actor", poll_interval_ms=20, **{"prompt": "a hat falls", **more}
    )


def seen(client: openai.OpenAI, video: str) -> dict[str, Any]:
    """What the actor was asked for."""
    found: dict[str, Any] = json.loads(client.videos.download_content(video).read())
    return found


def test_a_video_is_asked_for_looked_at_and_fetched(client: openai.OpenAI) -> None:
    video = made(client, size="64x32", extra_body={"seed": 7})
    assert (video.object, video.status, video.progress) == ("video", "completed", 100)
    assert (video.model, video.prompt, video.error) == ("actor", "a hat falls", None)
    assert (video.seconds, video.size) == ("1.125", "64x32"), "of the film itself"
    assert video.created_at <= video.completed_at < video.expires_at
    asked = seen(client, video.id)
    assert (asked["task"], asked["config"]["seed"]) == ("text2video", 7)
    assert client.videos.retrieve(video.id) == video


def test_it_is_a_job_as_any_other(server: Running, client: openai.OpenAI) -> None:
    video = made(client)
    job = server.client.get(f"/v1/jobs/{video.id}").json()
    assert (job["state"], job["request"]["task"]) == ("succeeded", "text2video")


@pytest.mark.parametrize(("seconds", "frames"), [("1", 9), ("2", 17), ("1.3", 9)])
def test_seconds_are_the_nearest_number_of_frames_that_the_model_has(
    client: openai.OpenAI, seconds: Any, frames: int
) -> None:
    """Eight frames a second; their number is 1 and a multiple of 4."""
    assert seen(client, made(client, seconds=seconds).id)["config"]["num_frames"] == frames


def test_a_film_may_start_from_a_picture(server: Running, client: openai.OpenAI) -> None:
    uploaded = made(client, input_reference=("hat.png", PICTURE, "image/png"))
    link = f"data:image/png;base64,{base64.b64encode(PICTURE).decode()}"
    body = {"model": "actor", "prompt": "a hat", "input_reference": {"image_url": link}}
    as_json = server.client.post("/v1/videos", json=body).json()
    assert eventually(lambda: client.videos.retrieve(as_json["id"]).status == "completed")
    for video in (uploaded.id, as_json["id"]):
        asked = seen(client, video)
        assert (asked["task"], bytes.fromhex(asked["image"])) == ("image2video", PICTURE)
    assert list((server.desk.settings.data / "uploads").iterdir()) == []


def test_while_it_is_made_it_says_how_far_it_is(client: openai.OpenAI, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    video = client.videos.create(model="actor", prompt=f"wait {gate}")
    assert eventually(lambda: client.videos.retrieve(video.id).progress == 25)
    assert client.videos.retrieve(video.id).status == "in_progress"
    with pytest.raises(openai.InternalServerError) as caught:
        client.videos.download_content(video.id)
    assert caught.value.code == "not_ready"
    gate.touch()
    assert client.videos.poll(video.id, poll_interval_ms=20).status == "completed"


def test_a_video_that_is_stopped_has_failed_and_can_be_forgotten(
    client: openai.OpenAI, tmp_path: Path
) -> None:
    video = client.videos.create(model="actor", prompt=f"wait {tmp_path / 'never'}")
    assert eventually(lambda: client.videos.retrieve(video.id).status == "in_progress")
    assert not client.videos.delete(video.id).deleted
    stopped = client.videos.poll(video.id, poll_interval_ms=20)
    assert (stopped.status, stopped.error and stopped.error.code) == ("failed", "cancelled")
    gone = client.videos.delete(video.id)
    assert (gone.id, gone.object, gone.deleted) == (video.id, "video.deleted", True)
    with pytest.raises(openai.NotFoundError):
        client.videos.retrieve(video.id)


def test_a_video_that_fails_says_why_in_its_record_and_for_its_content(
    client: openai.OpenAI,
) -> None:
    video = made(client, prompt="fail")
    assert (video.status, video.error.code) == ("failed", "run_failed")
    with pytest.raises(openai.InternalServerError) as caught:
        client.videos.download_content(video.id)
    assert caught.value.code == "run_failed"


def test_videos_are_listed_page_by_page_and_other_jobs_are_none(
    server: Running, client: openai.OpenAI
) -> None:
    server.ask(async_run=True)
    names = [made(client).id for _ in range(3)]
    newest = [video.id for video in client.videos.list(limit=2)]  # the client fetches every page
    assert newest[:3] == names[::-1]
    assert [video.id for video in client.videos.list(order="asc")] == newest[::-1]
    page = client.videos.list(limit=2)
    assert (len(page.data), page.has_more) == (2, True)


def test_another_job_is_no_video(server: Running, client: openai.OpenAI) -> None:
    job = server.ask(async_run=True).json()["id"]
    for look in (client.videos.retrieve, client.videos.delete, client.videos.download_content):
        with pytest.raises(openai.NotFoundError):
            look(job)
    assert server.client.get(f"/v1/jobs/{job}").status_code == 200


@pytest.mark.parametrize(
    ("more", "status", "param"),
    [
        ({"model": "toy"}, 422, "model"),
        ({"model": "mute", "seconds": "4"}, 400, "seconds"),
        ({"seconds": "soon"}, 400, "seconds"),
        ({"size": "big"}, 400, "size"),
        ({"extra_body": {"output_dir": "/etc"}}, 403, "output_dir"),
        ({"extra_body": {"sede": 1}}, 400, "sede"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    client: openai.OpenAI, more: dict[str, Any], status: int, param: str
) -> None:
    before = [video.id for video in client.videos.list()]
    with pytest.raises(openai.APIStatusError) as caught:
        client.videos.create(**{"model": "actor", "prompt": "a hat falls", **more})
    assert (caught.value.status_code, caught.value.param) == (status, param)
    assert [video.id for video in client.videos.list()] == before


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "order=up", "after=job_none"])
def test_a_list_that_cannot_be_is_refused(server: Running, query: str) -> None:
    assert server.client.get(f"/v1/videos?{query}").status_code in (400, 404)


@pytest.mark.parametrize(
    ("reference", "status", "param"),
    [
        ({"file_id": "file_1"}, 400, "input_reference"),
        ("data:image/png;base64,AAAA", 400, "input_reference"),
        ({"image_url": "http://a/b.png"}, 403, "input_reference"),
        ({"image_url": "/etc/passwd"}, 403, "input_reference"),
    ],
)
def test_a_picture_is_never_fetched_for_a_caller(
    server: Running, reference: Any, status: int, param: str
) -> None:
    body = {"model": "actor", "prompt": "a hat", "input_reference": reference}
    refused = server.client.post("/v1/videos", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (status, param)
