"""Which vLLM this was tested with."""

from __future__ import annotations

TESTED = ("0.24.0", "0.33.0")


def installed() -> str | None:
    """The version of vLLM that is installed, as its distribution says; None where there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("vllm")
    except PackageNotFoundError:
        return None


def untested(version: str) -> str | None:
    """What to say of a version that was not tested; None where it was. `0.24.0+x` is 0.24.0."""
    if version.partition("+")[0] in TESTED:
        return None
    return f"vLLM {version} was not tested with Jumar; tested: {', '.join(TESTED)}."
