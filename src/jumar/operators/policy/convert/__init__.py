"""Each of the three formats from the others, by way of a `Layer` of Jumar's policy.

What the target cannot say is not dropped: it stands as comments in the text, and in `lost`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from jumar.operators.policy.base import Layer, Origin, Rule
from jumar.operators.policy.convert.reading import as_layer
from jumar.operators.policy.convert.writing import WRITERS
from jumar.operators.policy.layers import with_layers
from jumar.operators.policy.peers import open_file

if TYPE_CHECKING:
    from jumar.evidence import Subject
    from jumar.operators.catalogue.base import Catalogue

Format = Literal["jumar", "vllm-plugin-fl", "flag-gems"]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True)
class Converted:
    """A file in another format, and what that format cannot say."""

    text: str
    lost: tuple[str, ...] = ()


def convert(path: Path, catalogue: Catalogue, *, to: Format) -> Converted:
    """A file of any of the formats in the format `to`.

    Raises:
        InvalidInput: the file cannot be read.
    """
    known = with_layers(catalogue, usable_only=False)
    layer, lost = as_layer(open_file(path), known)
    return _written(layer, known, to, lost)


def deny_lists(subjects: Iterable[Subject], catalogue: Catalogue, *, to: Format) -> Converted:
    """What stands in quarantine as a list of the format `to`.

    Shapes and dtypes are left out in every format: a denial that names them is wider than its
    evidence, which `lost` says.
    """
    known = with_layers(catalogue, usable_only=False)
    rules, lost = [], []
    for subject in subjects:
        if subject.operator not in known.operators:
            lost.append(f"quarantine: {subject}: no such operator is known here")
            continue
        denied = (subject.implementation,), (subject.operator,)
        rules.append(Rule("deny", *denied, because="in quarantine", origin=Origin("quarantine")))
        if (subject.shape_class, subject.dtype) != ("*", "*"):
            lost.append(f"quarantine: {subject}: denied for all shapes and dtypes")
    return _written(Layer("quarantine", tuple(dict.fromkeys(rules))), known, to, lost)


def _written(layer: Layer, catalogue: Catalogue, to: Format, lost: list[str]) -> Converted:
    text, more = WRITERS[to](layer, catalogue)
    said = tuple(dict.fromkeys([*lost, *more]))
    return Converted("".join(f"# not said here: {one}\n" for one in said) + text, said)
