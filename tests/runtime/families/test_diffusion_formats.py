"""What is told of float64 and complex64 is what the installed diffusers does."""

from __future__ import annotations

import inspect
import sys
import typing
from typing import Any

import pytest

from jumar import catalog
from jumar.runtime.families.diffusion.formats import COMPLEX, NARROWED, told_of_formats

diffusers = pytest.importorskip("diffusers")


def transformers_of_the_catalog() -> dict[str, Any]:
    """The classes that the pipelines of all manifests name as their transformer."""
    names = {
        task.options["pipeline"]
        for row in catalog.rows()
        for task in catalog.get(row.id).tasks.values()
        if "pipeline" in task.options
    }
    found = {}
    for name in names:
        hint = inspect.signature(getattr(diffusers, name).__init__).parameters.get("transformer")
        for one in [] if hint is None else (typing.get_args(hint.annotation) or [hint.annotation]):
            if inspect.isclass(one) and one is not type(None):
                found[one.__name__] = one
    return found


def test_both_tables_are_what_the_source_of_diffusers_says() -> None:
    narrowed, complex_ = set(), set()
    for name, cls in transformers_of_the_catalog().items():
        source = inspect.getsource(sys.modules[cls.__module__])
        if "maybe_adjust_dtype_for_device(torch.float64, " in source:
            narrowed.add(name)
        if "use_real=False)" in source or "LuminaAttnProcessor2_0()" in source:
            complex_.add(name)
    assert narrowed == NARROWED
    assert complex_ == COMPLEX


def test_it_is_told_on_an_npu_only() -> None:
    flux = type("FluxTransformer2DModel", (), {})()
    assert list(told_of_formats([flux, None], "cuda")) == []
    (told,) = told_of_formats([flux, None, flux], "npu")
    assert told == (
        "FluxTransformer2DModel: diffusers computes rotary frequencies in fp32 on an NPU,"
        " not float64."
    )
