"""Files in which others say which operators to leave alone, read with the line of each entry."""

from __future__ import annotations

from pathlib import Path

from jumar.contracts.errors import InvalidInput, did_you_mean
from jumar.operators.policy.base import Layer
from jumar.operators.policy.files import TOP, layer
from jumar.operators.policy.located import line_of, read
from jumar.operators.policy.peers import flag_gems, vllm_plugin_fl
from jumar.operators.policy.peers.flag_gems import Listing
from jumar.operators.policy.peers.vllm_plugin_fl import Config

__all__ = ["Config", "Listing", "open_file"]


def open_file(path: Path) -> Layer | Config | tuple[Listing, ...]:
    """A file in whichever of the formats it is written.

    Python: the lists in its calls of FlagGems. YAML: Jumar's policy where it has one of its keys,
    FlagGems' where it has `include` or `exclude`, else vllm-plugin-FL's. Anything else: a plain
    list of names.

    Raises:
        InvalidInput: it cannot be read.
    """
    if path.suffix == ".py":
        return flag_gems.from_python(path)
    if path.suffix not in (".yaml", ".yml"):
        return (flag_gems.from_text(path),)
    data = read(path)
    if any(key in data for key in flag_gems.KEYS):
        return flag_gems.from_mapping(data, path.name)
    if any(key in TOP and key != "strict" for key in data) or set(data) <= {"strict"}:
        return layer(data, path.name)
    known = {*TOP, *flag_gems.KEYS, *vllm_plugin_fl.facts().keys}
    if not known.intersection(data):
        first = next(iter(data))
        raise InvalidInput(
            f"{path.name}:{line_of(first)}: no list or policy that is known here has a key"
            f" {str(first)!r}.",
            hint=did_you_mean(str(first), known),
        )
    return vllm_plugin_fl.config(data, path.name)
