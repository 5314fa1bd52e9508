"""Numbers as people read them: 850 ms, 12.3 s, 90.6 MB."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.contracts.results import Artifact


def milliseconds(ms: float) -> str:
    """`0.4 ms`, `85 ms`, `1.24 s`, `2 min 05 s`."""
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{ms:.0f} ms"
    if ms < 9_995:
        return f"{ms / 1e3:.2f} s"
    if ms < 99_950:
        return f"{ms / 1e3:.1f} s"
    minutes, seconds = divmod(round(ms / 1e3), 60)
    return f"{minutes} min {seconds:02d} s"


def size(count: float) -> str:
    """`712 B`, `23.1 kB`, `90.6 MB`, `4.02 GB`, `1.5 TB` (powers of ten)."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.9995 * scale:  # what would be 1000 of the unit below
            many = count / scale
            return f"{many:.3g} {unit}" if many < 999.5 else f"{many:.0f} {unit}"
    return f"{count:.0f} B"


def describe(artifact: Artifact) -> str:
    """Size and shape of an artifact: `256 × 256 · 23.1 kB`."""
    parts = []
    if artifact.width and artifact.height:
        parts.append(f"{artifact.width} × {artifact.height}")
    if artifact.num_frames:
        parts.append(f"{artifact.num_frames} frames")
    if artifact.duration_s is not None:
        parts.append(f"{artifact.duration_s:.2f} s")
    if artifact.sample_rate:
        parts.append(f"{artifact.sample_rate / 1e3:g} kHz")
    if artifact.fps:
        parts.append(f"{artifact.fps:g} fps")
    if artifact.size_bytes is not None:
        parts.append(size(artifact.size_bytes))
    return " · ".join(parts)
