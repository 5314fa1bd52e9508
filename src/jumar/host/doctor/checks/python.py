"""Python packages: the pair of torch and torch_npu, and what stands around it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.checks.common import check, python, versions
from jumar.host.doctor.pairs import (
    Pair,
    minor,
    pairs_of,
    public,
    release,
    same_set,
    torch_npu_pairs,
)
from jumar.host.product import has_npu, product_name
from jumar.host.ranges import version_key
from jumar.host.tables import rows

if TYPE_CHECKING:
    from jumar.host.doctor.base import Values
    from jumar.host.facts import HostFacts

COMPILER_NEEDS = (
    *("numpy", "decorator", "sympy", "cffi", "protobuf", "attrs", "pyyaml", "pathlib2"),
    *("scipy", "requests", "psutil", "absl-py"),
)
"""What CANN's operator compiler imports (Ascend/pytorch#7)."""

FIRST_WITH_NUMPY_2 = "8.3.RC1"

PLATFORMS = ("vllm-ascend", "vllm-plugin-fl", "jumar")
"""Distributions that bring vLLM a platform for NPUs."""


def here(facts: HostFacts) -> dict[str, object]:
    """The versions that most rules of this topic show."""
    installed = dict(versions(facts, "torch", "torch-npu"))
    return {
        "python": python(facts),
        "torch": installed.get("torch", "(none)"),
        "torch_npu": installed.get("torch-npu", "(none)"),
        "product": product_name(facts),
    }


@check("torch-missing")
def torch_missing(facts: HostFacts) -> Iterator[Values]:
    if has_npu(facts) and facts.python.version_of("torch") is None:
        yield here(facts)


@check("torch-npu-missing")
def torch_npu_missing(facts: HostFacts) -> Iterator[Values]:
    if has_npu(facts) and facts.python.version_of("torch-npu") is None:
        yield {**here(facts), "wanted": wanted_torch_npu(facts)}


def wanted_torch_npu(facts: HostFacts) -> str:
    """The torch_npu for the torch and CANN here, else for this torch, else any."""
    torch = facts.python.version_of("torch")
    pairs = [pair for pair in torch_npu_pairs() if torch and pair.torch == release(torch)]
    cann = facts.cann.version if facts.cann else None
    exact = [pair for pair in pairs if cann and same_set(pair.cann, cann)]
    named = [f"torch_npu=={pair.torch_npu}" for pair in [*exact, *pairs]]
    return next(iter(named), f"torch_npu=={release(torch)}" if torch else "torch_npu")


@check("torch-npu-without-its-torch")
def without_its_torch(facts: HostFacts) -> Iterator[Values]:
    torch, build = facts.python.version_of("torch"), facts.python.version_of("torch-npu")
    if torch is None or build is None or release(torch) == release(build):
        return
    wanted = [pair.torch for pair in pairs_of(build)]
    if release(torch) not in wanted:
        yield {
            **here(facts),
            "wanted_torch": next(iter(wanted), release(build)),
            "row": rows_of(build),
        }


@check("torch-npu-without-its-cann")
def without_its_cann(facts: HostFacts) -> Iterator[Values]:
    build, cann = facts.python.version_of("torch-npu"), facts.cann
    if build is None or cann is None or cann.version is None:
        return
    listed = pairs_of(build)
    if listed and not any(same_set(pair.cann, cann.version) for pair in listed):
        yield {
            **here(facts),
            "cann": cann.version,
            "row": rows_of(build),
            "suggestion": suggestion(cann.version, release(build)),
        }


def suggestion(cann: str, torch: str) -> str:
    """A released set for this CANN, with the torch that is here if there is one."""
    fitting = [pair for pair in torch_npu_pairs() if same_set(pair.cann, cann)]
    best = [pair for pair in fitting if pair.torch == torch] or fitting
    return f"torch=={best[0].torch} torch_npu=={best[0].torch_npu}" if best else "torch_npu"


def rows_of(build: str) -> str:
    listed: list[Pair] = pairs_of(build)
    return "; ".join(map(str, listed)) or f"(none for torch_npu {build})"


@check("torch-npu-unlisted")
def torch_npu_unlisted(facts: HostFacts) -> Iterator[Values]:
    build = facts.python.version_of("torch-npu")
    if build is not None and not pairs_of(build):
        yield here(facts)


@check("torch-npu-end-of-life")
def torch_npu_end_of_life(facts: HostFacts) -> Iterator[Values]:
    build = facts.python.version_of("torch-npu")
    if build is not None:
        for pair in pairs_of(build):
            if pair.note.startswith("EOL"):
                yield {"row": str(pair)}


@check("torch-cuda-build")
def torch_cuda_build(facts: HostFacts) -> Iterator[Values]:
    torch = facts.python.version_of("torch")
    cuda = facts.python.torch_cuda or "".join((torch or "").partition("+cu")[1:]).lstrip("+")
    if torch and cuda and has_npu(facts) and not facts.nvidia.gpus:
        yield {**here(facts), "cuda": cuda, "release": release(torch)}


@check("torch-other-python")
def torch_other_python(facts: HostFacts) -> Iterator[Values]:
    torch, version = facts.python.version_of("torch"), facts.python.version
    if torch is None or version is None or not has_npu(facts):
        return
    for row in rows("torch_python.tsv"):
        low, high = version_key(row["low"]), version_key(row["high"])
        if row["torch"] == minor(torch) and not low <= version_key(minor(version)) <= high:
            yield {
                "version": version,
                "torch": torch,
                "row": row["torch"],
                "low": row["low"],
                "high": row["high"],
            }


@check("numpy-2-with-old-cann")
def numpy_2(facts: HostFacts) -> Iterator[Values]:
    numpy, cann = facts.python.version_of("numpy"), facts.cann
    if numpy is None or cann is None or cann.version is None:
        return
    old = version_key(cann.version) < version_key(FIRST_WITH_NUMPY_2)
    if old and version_key(numpy) >= version_key("2"):
        yield {"numpy": numpy, "cann": cann.version, "python": python(facts)}


@check("cann-python-deps-missing")
def deps_missing(facts: HostFacts) -> Iterator[Values]:
    missing = [name for name in COMPILER_NEEDS if facts.python.version_of(name) is None]
    if missing and facts.canns and facts.python.version_of("torch-npu"):
        yield {"missing": " ".join(missing), "python": python(facts)}


@check("diffusers-with-torch-2.1")
def diffusers_with_torch_21(facts: HostFacts) -> Iterator[Values]:
    torch, diffusers = facts.python.version_of("torch"), facts.python.version_of("diffusers")
    if torch is None or diffusers is None or minor(torch) != "2.1":
        return
    if version_key(minor(diffusers)) > version_key("0.37"):
        yield {"torch": torch, "diffusers": diffusers, "python": python(facts)}


@check("triton-beside-triton-ascend")
def two_tritons(facts: HostFacts) -> Iterator[Values]:
    found = dict(versions(facts, "triton", "triton-ascend"))
    if len(found) == 2:
        yield {
            "triton": found["triton"],
            "triton_ascend": found["triton-ascend"],
            "python": python(facts),
        }


@check("vllm-ascend-row")
def vllm_ascend_row(facts: HostFacts) -> Iterator[Values]:
    installed = facts.python.version_of("vllm-ascend")
    row = next((r for r in rows("vllm_ascend_matrix.tsv") if r["vllm_ascend"] == installed), None)
    if installed is None or row is None:
        return
    have = {
        "vllm": facts.python.version_of("vllm"),
        "CANN": facts.cann.version if facts.cann else None,
        "torch_npu": facts.python.version_of("torch-npu"),
        "triton-ascend": facts.python.version_of("triton-ascend"),
    }
    want = {
        "vllm": row["vllm"],
        "CANN": row["cann"],
        "torch_npu": row["torch_or_torch_npu"].rsplit(" / ", 1)[-1],
        "triton-ascend": row["triton_ascend"],
    }
    for what, wanted in want.items():
        got = have[what]
        if wanted and got is not None and public(got) != public(wanted):
            yield {"release": installed, "what": what, "here": got, "row": wanted}


@check("vllm-without-platform")
def vllm_without_platform(facts: HostFacts) -> Iterator[Values]:
    vllm = facts.python.version_of("vllm")
    if vllm and has_npu(facts) and not dict(versions(facts, *PLATFORMS)):
        yield {"vllm": public(vllm), "plugins": ", ".join(PLATFORMS), "python": python(facts)}
