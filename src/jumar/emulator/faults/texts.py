"""Error texts of NPUs, by name (`texts.yaml`)."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def texts() -> dict[str, str]:
    """All known texts; `{op}` and `{Op}` stand for the operator."""
    import yaml

    loaded: dict[str, str] = yaml.safe_load(
        Path(__file__).with_name("texts.yaml").read_text(encoding="utf-8")
    )
    return loaded


def say(text: str | None, op: str) -> str:
    """The text of a name, or `text` itself, about operator `op` ("aten::mm.out")."""
    bare = op.split("::")[-1].split(".")[0]
    camel = "".join(part.capitalize() for part in bare.split("_"))
    words = texts().get(text or "", text or "")
    return words.replace("{op}", bare).replace("{Op}", camel)
