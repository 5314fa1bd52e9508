"""A family without torch whose model does every task, and writes down what it was asked for."""

from __future__ import annotations

import base64
import io
import json
import os
import time
import wave
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from jumar.catalog.resolution import ResolvedRequest
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, Draft, LoadPlan
from jumar.runtime.run import Run

RATE = 8_000
SAMPLES = b"".join((place * 37 % 9_000).to_bytes(2, "little") for place in range(800))

_PROMPT = {"prompt": {"required": True}}
MANIFEST: dict[str, Any] = {
    "id": "actor",
    "summary": "Does every task, and says what it was asked for.",
    "family": "actor",
    "tier": "experimental",
    "licence": "Apache-2.0",
    "tasks": {
        "text2audio": {
            "inputs": _PROMPT,
            "config": {
                "response_format": {"default": "wav", "choices": ["wav", "flac"]},
                "speed": {"minimum": 0.5, "maximum": 2.0},
                "stream": None,
            },
        },
        "text2image": {
            "inputs": _PROMPT,
            "config": {"width": None, "height": None, "num_images_per_prompt": None},
        },
        "inpaint": {
            "inputs": {**_PROMPT, "image": {"required": True}, "mask": {"required": True}},
        },
        "image2image": {
            "inputs": {**_PROMPT, "image": {"required": True}},
            "config": {"strength": {"default": 0.5}},
        },
        "text2video": {
            "inputs": _PROMPT,
            "config": {
                "width": None,
                "height": None,
                "num_frames": {"default": 9, "step": 4},
                "fps": {"default": 8},
            },
        },
        "image2video": {"inputs": {**_PROMPT, "image": {"required": True}}},
        "audio2text": {
            "inputs": {"audio": {"required": True}},
            "config": {
                "language": None,
                "response_format": {"default": "text", "choices": ["text", "json", "srt", "vtt"]},
                "word_timestamps": {"default": False},
            },
        },
    },
    "config": {"seed": None},
}
MUTE = {
    **{key: MANIFEST[key] for key in ("summary", "family", "tier", "licence")},
    "id": "mute",
    "tasks": {"text2video": {"inputs": _PROMPT}},
}


def manifests() -> list[dict[str, Any]]:
    return [MANIFEST, MUTE]


class Actor:
    name = "actor"
    requires: tuple[str, ...] = ()
    converters: Mapping[str, Converter] = {}

    def refuses(self, placement: Placement) -> str | None:
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        return dict(request.inputs)

    def load(self, plan: LoadPlan, run: Run) -> ActorModel:
        return ActorModel()


class ActorModel:
    """Pictures and videos hold the request as JSON; `heard` are the bytes of uploads."""

    def generate(self, run: Run) -> list[Draft]:
        if run.inputs.get("prompt") == "fail":
            raise RuntimeError("The curtain fell.")
        count = run.config.get("num_images_per_prompt") or 1
        return [_DRAFTS[run.request.task](run) for _ in range(count)]

    def close(self) -> None:
        """Nothing is held."""


def asked(run: Run) -> bytes:
    """What a run was asked for: uploads as the hexadecimal digits of their bytes."""
    files = {
        key: Path(run.inputs[key]).read_bytes().hex()
        for key in ("image", "mask", "audio")
        if run.inputs.get(key)
    }
    config = {key: value for key, value in run.config.items() if value is not None}
    return json.dumps({"task": run.request.task, **run.inputs, **files, "config": config}).encode()


def wav(samples: bytes = SAMPLES) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(RATE)
        sound.writeframes(samples)
    return file.getvalue()


def _sound(run: Run) -> Draft:
    name = run.config["response_format"]
    if run.config["stream"]:
        _in_pieces(run)
    data = wav() if name == "wav" else b"fLaC" + asked(run)
    write = _full if run.inputs["prompt"] == "disk full" else _writing(data)
    return Draft("audio", f"audio/{name}", f".{name}", write, sample_rate=RATE)


def _full(file: BinaryIO) -> None:
    raise OSError(28, "No space left on device")


def _in_pieces(run: Run) -> None:
    """Two pieces; a prompt `MANNER PATH` says what happens between them.

    `wait`: until there is a file at the path. `die`: the process ends, where there is none yet.
    `fail`: an error.
    """
    manner, _, path = run.inputs["prompt"].partition(" ")
    half = len(SAMPLES) // 2
    for number, data in enumerate((SAMPLES[:half], SAMPLES[half:]), 1):
        if number == 2 and manner == "wait":
            while not Path(path).exists():
                run.check()
                time.sleep(0.01)
        if number == 2 and manner == "die" and not Path(path).exists():
            Path(path).touch()
            os._exit(3)
        if number == 2 and manner == "break":
            raise RuntimeError("The voice broke.")
        pcm = base64.b64encode(data).decode()
        run.emit("sound", kept=False, number=number, rate=RATE, pcm=pcm)


def _picture(run: Run) -> Draft:
    return Draft("image", "image/png", ".png", _writing(asked(run)))


def _video(run: Run) -> Draft:
    """A prompt `wait PATH`: not before there is a file at the path."""
    manner, _, path = run.inputs["prompt"].partition(" ")
    while manner == "wait" and not Path(path).exists():
        run.step(1, 4)
        time.sleep(0.01)
    return Draft("video", "video/mp4", ".mp4", _writing(asked(run)), width=64, height=32,
                 duration_s=1.125)  # fmt: skip


def _text(run: Run) -> Draft:
    word = {"start": 0.1, "end": 0.4, "word": "Hello.", "probability": 0.9}
    segment: dict[str, Any] = {"start": 0.1, "end": 0.4, "text": "Hello."}
    if run.config["word_timestamps"]:
        segment["words"] = [word]
    written = {
        "text": "Hello.\n",
        "srt": "1\n00:00:00,100 --> 00:00:00,400\nHello.\n",
        "vtt": "WEBVTT\n\n00:00:00.100 --> 00:00:00.400\nHello.\n",
        "json": json.dumps(
            {"text": "Hello.", "language": "en", "duration": 0.5, "segments": [segment]}
        ),
    }[run.config["response_format"]]
    return Draft("text", "text/plain", ".txt", _writing(written.encode()), text="Hello.")


_DRAFTS: dict[str, Callable[[Run], Draft]] = {
    "text2audio": _sound,
    "text2image": _picture,
    "image2image": _picture,
    "inpaint": _picture,
    "text2video": _video,
    "image2video": _video,
    "audio2text": _text,
}


def _writing(data: bytes) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        file.write(data)

    return write


def install(folder: Path) -> None:
    """Put the distribution into a folder that stands on `sys.path`."""
    info = folder / "jumar_actor-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jumar_actor\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[jumar.manifests]\nactor = tests.support.actor:manifests\n"
        "[jumar.families]\nactor = tests.support.actor:Actor\n"
    )
