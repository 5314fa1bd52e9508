"""A family and a model of another distribution, without torch: each prompt is a behaviour."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, Draft, LoadPlan
from jumar.runtime.run import Run

MANIFEST: dict[str, Any] = {
    "id": "toy",
    "summary": "Says what it is told, or fails as it is told.",
    "family": "toy",
    "tier": "experimental",
    "licence": "Apache-2.0",
    "tasks": {"text2audio": None},
    "inputs": {"prompt": {"required": True}},
    "config": {"seed": None, "speed": {"default": 1.0}, "dtype": None},
}


def manifests() -> list[dict[str, Any]]:
    return [MANIFEST]


class Toy:
    """The family: refuses NPUs, dislikes the word 'unreadable'."""

    name = "toy"
    requires: tuple[str, ...] = ()
    converters: Mapping[str, Converter] = {}
    loaded: int = 0
    open: int = 0

    def refuses(self, placement: Placement) -> str | None:
        if "JUMAR_TOY_PLACE" in os.environ:
            os.abort()
        return "toys are for CPUs" if placement.device.kind != "cpu" else None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        if request.inputs["prompt"] == "unreadable":
            raise InvalidInput("This prompt is unreadable.", param="inputs.prompt")
        return dict(request.inputs)

    def load(self, plan: LoadPlan, run: Run) -> ToyModel:
        if "JUMAR_TOY_LOAD" in os.environ:
            {"abort": os.abort, "stuck": where_it_stands}[os.environ["JUMAR_TOY_LOAD"]]()
        Toy.loaded += 1
        Toy.open += 1
        return ToyModel()


class ToyModel:
    def generate(self, run: Run) -> list[Draft]:
        prompt = run.inputs["prompt"]
        with run.stage("speak"):
            if prompt in FAILURES:
                raise FAILURES[prompt]
            if prompt == "slow":
                for done in range(2_000):
                    run.step(done, 2_000)
                    time.sleep(0.005)
            if prompt == "abort":
                os.abort()
            if prompt == "stuck":
                where_it_stands()
            if prompt == "silent":
                sys.stderr.write("EZ9999: Inner Error!\n")
                os._exit(3)
            if prompt == "hoarse":
                run.warn("The voice is hoarse.")
        return [draft(f"{prompt}/{part}") for part in range(prompt.count("and") + 1)]

    def close(self) -> None:
        Toy.open -= 1


def where_it_stands() -> None:
    sys.stderr.write("It stands still.\n")
    time.sleep(10_000)


FAILURES: dict[str, BaseException] = {
    "fail": RuntimeError("aclnnSomething failed, error code is 561002"),
    "oom": MemoryError("cannot allocate"),
    "ctrl-c": KeyboardInterrupt(),
}


def draft(text: str) -> Draft:
    def write(file: BinaryIO) -> None:
        if text.startswith("half"):
            file.write(b"half of it")
            file.flush()
            os.abort()
        if text.startswith("disk full"):
            raise OSError(28, "No space left on device")
        file.write(text.encode())

    return Draft(kind="audio", mime="audio/wav", suffix=".wav", write=write, sample_rate=8_000)


def install(folder: Path) -> None:
    """Put the distribution into a folder that stands on `sys.path`."""
    info = folder / "jumar_toy-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jumar_toy\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[jumar.manifests]\ntoy = tests.support.toy:manifests\n"
        "[jumar.families]\ntoy = tests.support.toy:Toy\n"
    )
