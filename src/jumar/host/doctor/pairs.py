"""Which versions were released for each other, as rows that can be shown.

Sources: the compatibility page of Ascend/pytorch (its Chinese page lists other builds for CANN
9.1.0: both are kept), the version policy of vllm-ascend, and user reports for drivers. They
disagree in places, so a row is shown, never enforced.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from jumar.host.tables import rows


@dataclass(frozen=True)
class Pair:
    """One released set: a torch_npu, its torch, its CANN, and where that stands."""

    torch_npu: str
    torch: str
    cann: str
    note: str

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        return f"torch_npu {self.torch_npu} = torch {self.torch} + CANN {self.cann}{note}"


@cache
def torch_npu_pairs() -> tuple[Pair, ...]:
    """All pairs of all sources, newest CANN first."""
    own = [
        Pair(row["torch_npu"], row["torch"], row["CANN"], row["note"])
        for name in ("torch_npu_compat.tsv", "torch_npu_compat_zh.tsv")
        for row in rows(name)
    ]
    shipped = [
        Pair(build, release(build), row["cann"], f"shipped by vllm-ascend {row['vllm_ascend']}")
        for row in rows("vllm_ascend_matrix.tsv")
        for build in [row["torch_or_torch_npu"].rsplit(" / ", 1)[-1]]
    ]
    return tuple(own + shipped)


def pairs_of(torch_npu: str) -> list[Pair]:
    """The rows of one build; a local part ("+git…") does not matter."""
    return [pair for pair in torch_npu_pairs() if public(pair.torch_npu) == public(torch_npu)]


def same_set(one: str, other: str) -> bool:
    """Whether two CANN versions count as one: the release candidates of 8.0 do not."""
    return one == other or (minor(one) == minor(other) and minor(one) != "8.0")


def public(version: str) -> str:
    """ "2.9.0" of "2.9.0+cpu"."""
    return version.split("+")[0]


def release(version: str) -> str:
    """The release a build belongs to: "2.7.1" of "2.7.1.post4+git1"."""
    return ".".join([part for part in public(version).split(".") if part.isdecimal()][:3])


def minor(version: str) -> str:
    """ "2.10" of "2.10.0.post2", "8.2" of "8.2.RC1"."""
    return ".".join(version.split(".")[:2])
