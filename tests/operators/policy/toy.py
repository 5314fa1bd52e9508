"""A small catalogue: a few real operators, and functions under FlagGems' real names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

from jumar.evidence import Evidence, Kind, Quarantine, Subject
from jumar.operators.catalogue.base import Catalogue, Implementation, Operator, Reentry
from jumar.operators.policy.base import Layer, Policy
from jumar.operators.policy.files import layer
from jumar.operators.policy.located import read

GEMS = {
    "aten::mm": "mm",
    "aten::mm.out": "mm_out",
    "aten::linear": "linear",
    "aten::pow.Scalar": "pow_scalar",
    "aten::pow.Tensor_Scalar": "pow_tensor_scalar",
    "aten::pow_.Scalar": "pow_tensor_scalar_",
    "aten::exponential_": "exponential_",
    "aten::uniform_": "uniform_",
    "aten::log_": "log_",
    "aten::_softmax": "softmax",
    "aten::div.Tensor": "true_divide",
    "aten::true_divide.Tensor": "true_divide",
}
"""Facts of FlagGems' registrar (https://github.com/flagos-ai/FlagGems, Apache-2.0)."""

NATIVE = ("aten::reshape", "aten::gelu", "aten::log", "rms_norm", "silu_and_mul")
NPU = {"fingerprint": "of an NPU"}


def _operator(name: str) -> Operator:
    base = name.rpartition("::")[2].partition(".")[0]
    return Operator(name, base if base.startswith("_") else base.rstrip("_"))


def catalogue() -> Catalogue:
    """FlagGems beside torch, and torch_npu with one layer operator."""
    gems = [
        Implementation(name, "flag_gems", function, "PrivateUse1", "registrar")
        for name, function in GEMS.items()
    ]
    npu = Implementation("rms_norm", "torch_npu", "npu_rms_norm", "layer", "binding")
    called = (Reentry("aten::uniform_", "run"), Reentry("aten::log_", "run"))
    return Catalogue(
        versions={"flag_gems": "1.2.3"},
        operators={name: _operator(name) for name in (*GEMS, *NATIVE)},
        implementations=(*gems, npu),
        unused={"flag_gems": {"ascend": ("exponential_",)}},
        reentries={"aten::exponential_": called},
    )


def written(text: str, place: str = "policy.yaml") -> Layer:
    """A layer from YAML text."""
    return layer(read(dedent(text), place), place)


def policy(*texts: str) -> Policy:
    """Layers from YAML texts, called first.yaml, second.yaml, ..."""
    names = ("first.yaml", "second.yaml", "third.yaml")
    return Policy(tuple(written(text, name) for text, name in zip(texts, names, strict=False)))


def bad(operator: str, implementation: str, kind: Kind = "wrong", **narrow: str) -> Evidence:
    """Evidence against an implementation."""
    subject = Subject(operator=operator, implementation=implementation, **narrow)
    return Evidence(subject=subject, fingerprint={}, verdict=kind, found_by="check", at=1.0)


def quarantine(*rules: Evidence) -> Quarantine:
    """These rules in force."""
    return Quarantine(rules)


def file(folder: Path, name: str, text: str) -> Path:
    """A file with dedented text."""
    path = folder / name
    path.write_text(dedent(text), encoding="utf-8")
    return path


def lines_with(code: str, findings: Iterable[object]) -> list[str]:
    """The entries of the findings of one kind."""
    return [one.entry for one in findings if one.code == code]  # type: ignore[attr-defined]
