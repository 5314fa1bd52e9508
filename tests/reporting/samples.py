"""Reports and artifacts as runs write them, made with the standard library only."""

from __future__ import annotations

import hashlib
import math
import struct
import wave
import zlib
from pathlib import Path

from jumar.contracts.results import (
    Artifact,
    BackendAttempt,
    BackendTimelineEntry,
    ErrorDetail,
    RunReport,
    StageEventRecord,
)

ZERO = 1_767_225_600_000
"""2026-01-01 00:00:00 UTC, in milliseconds."""


def picture(path: Path, side: int = 64) -> Artifact:
    """A PNG with a soft gradient."""
    rows = b"".join(
        b"\0" + bytes(v for x in range(side) for v in (200, 40 + 2 * x, 255 * y // side))
        for y in range(side)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    content += chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return _stored(path, content, kind="image", mime="image/png", width=side, height=side)


def sound(path: Path, seconds: float = 0.5) -> Artifact:
    """A WAV with a tone of 440 Hz."""
    count = round(22_050 * seconds)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(22_050)
        file.writeframes(
            b"".join(
                struct.pack("<h", round(9e3 * math.sin(2 * math.pi * 440 * n / 22_050)))
                for n in range(count)
            )
        )
    return _stored(
        path,
        path.read_bytes(),
        kind="audio",
        mime="audio/wav",
        duration_s=seconds,
        sample_rate=22_050,
    )


def words(path: Path, text: str) -> Artifact:
    """A text artifact."""
    return _stored(path, text.encode(), kind="text", mime="text/plain", text=text)


def vectors(path: Path, rows: list[list[float]]) -> Artifact:
    """A `.npy` of float32 rows, byte for byte as numpy writes one."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({len(rows)}, {len(rows[0])}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode()
    content += b"".join(struct.pack(f"<{len(row)}f", *row) for row in rows)
    return _stored(path, content, kind="vectors", mime="application/x-npy")


def _stored(path: Path, content: bytes, **fields: object) -> Artifact:
    path.write_bytes(content)
    return Artifact(
        path=str(path),
        sha256=hashlib.sha256(content).hexdigest(),
        size_bytes=len(content),
        **fields,  # type: ignore[arg-type]
    )


def events(*stages: tuple[str, int, int], failed: str | None = None) -> list[StageEventRecord]:
    """Stages as (name, begin, end) in milliseconds; the one named `failed` ends so."""
    told = []
    for name, begin, end in stages:
        told.append(_event("stage_started", name, begin))
        if name == failed:
            told.append(_event("stage_failed", name, end, error="RuntimeError: x"))
        else:
            told.append(_event("stage_finished", name, end, ms=float(end - begin)))
    return sorted(told, key=lambda event: event.timestamp_ms)


def _event(event: str, stage: str, at: int, **data: object) -> StageEventRecord:
    return StageEventRecord(event=event, stage=stage, timestamp_ms=ZERO + at, data=data)


def steps(stage: str, begin: int, end: int, count: int) -> list[StageEventRecord]:
    """`count` steps spread over a stage."""
    width = (end - begin) / count
    return [
        _event("step", stage, round(begin + width * n), done=n, total=count)
        for n in range(1, count + 1)
    ]


def climbed(module: str = "unet", *, why: str | None = None) -> BackendTimelineEntry:
    """A module that runs eagerly: where `why` is given because its graph failed so."""
    return BackendTimelineEntry(
        module=module,
        attempts=[
            BackendAttempt(
                level="compile", ok=False, reason=why or "not tried: no graph backend for the CPU"
            ),
            BackendAttempt(level="kernel_override", ok=False, reason="no override registered"),
            BackendAttempt(level="eager", ok=True, selected=True),
        ],
    )


def report(run_id: str = "20260101-000000-0a1b2c3d", **changes: object) -> RunReport:
    """A picture that was drawn on a CPU in 2.4 s."""
    fields: dict[str, object] = {
        "run_id": run_id,
        "task": "text2image",
        "model": "sdxl-digits",
        "backend": "cpu",
        "device": "cpu",
        "execution_mode": "inline",
        "timings": {
            "fetch_ms": 12.0,
            "load_ms": 810.0,
            "encode_ms": 45.0,
            "denoise_ms": 1370.0,
            "decode_ms": 120.0,
            "export_ms": 8.0,
            "total_ms": 2375.5,
        },
        "memory": {"peak_mb": 912.4},
        "stream_events": sorted(
            events(
                ("fetch", 0, 12),
                ("load", 13, 823),
                ("encode", 824, 869),
                ("denoise", 870, 2240),
                ("decode", 2241, 2361),
                ("export", 2362, 2370),
            )
            + steps("denoise", 870, 2235, 20),
            key=lambda event: event.timestamp_ms,
        ),
        "backend_timeline": [climbed("unet"), climbed("vae")],
        "inputs": {"prompt": "a red seven"},
        "config_resolved": {
            "num_inference_steps": 20,
            "guidance_scale": 4.0,
            "seed": 7,
            "width": 64,
            "dtype": "fp32",
            "scheduler": None,
        },
        "config_origins": {
            "num_inference_steps": "preset fast",
            "guidance_scale": "default",
            "seed": "caller",
            "width": "default",
            "dtype": "default",
        },
        "device_placement": {"model": "cpu"},
        "fingerprint": {"device_class": "cpu", "torch": "2.13.0", "machine": "x86_64"},
    }
    return RunReport.model_validate({**fields, **changes})


def failed_report(run_id: str = "20260101-000009-ffffffff", **changes: object) -> RunReport:
    """A run whose device ran out of memory while it drew."""
    fields: dict[str, object] = {
        "timings": {"load_ms": 300.0, "denoise_ms": 90.0, "total_ms": 395.0},
        "stream_events": events(("load", 0, 300), ("denoise", 301, 391), failed="denoise"),
        "error": "The device ran out of memory.",
        "error_detail": ErrorDetail(
            code="insufficient_memory",
            message="The device ran out of memory.",
            hint="Take a smaller size or batch.",
            cause="OutOfMemoryError: tried to allocate 20 GiB",
        ),
    }
    return report(run_id, **{**fields, **changes})


def store(report: RunReport, folder: Path) -> Path:
    """Write a report as the engine does."""
    path = folder / f"{report.run_id}.report.json"
    path.write_text(report.model_dump_json(indent=1), encoding="utf-8")
    return path
