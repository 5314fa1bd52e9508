"""From a folder of weights to a pipeline on its device.

`components` of a manifest's task says what differs from the folder's own `model_index.json`:

    safety_checker: null                         # left out (the default for safety checkers)
    safety_checker: {}                           # loaded as the folder has it
    vae: {dtype: fp32}                           # in another dtype than the rest
    motion_adapter: {class: MotionAdapter, weights: motion_adapter, subfolder: null}
"""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jumar.contracts.errors import DependencyMissing, InvalidRequest, WeightsUnavailable
from jumar.runtime.families.base import LoadPlan
from jumar.runtime.families.diffusion.adapters import add_adapters
from jumar.runtime.families.diffusion.formats import told_of_formats
from jumar.runtime.families.diffusion.libraries import heard
from jumar.runtime.families.diffusion.memory import apply_options, quantization_of
from jumar.runtime.families.precision import dtype_for, torch_dtype
from jumar.runtime.run import Run

UNUSED = ("safety_checker", "watermarker")
"""Components that change a picture behind the caller's back: loaded only where a manifest says."""


def load_pipeline(plan: LoadPlan, run: Run) -> Any:
    """Load the pipeline of the plan's task, add its adapters, and put it onto its device.

    The dtype that was chosen is recorded in `run.config`.

    Raises:
        WeightsUnavailable: the folder does not hold this pipeline.
        DependencyMissing, InvalidValue, InvalidInput: see `Diffusion.load`.
    """
    options = plan.manifest.tasks[plan.task].options
    folder = plan.weights["model"]
    run.config["dtype"] = dtype = dtype_for(plan.config.get("dtype"), plan.placement)
    parts = options.get("components", {})
    spread = {
        "quantization_config": quantization_of(plan.config, _components_in(folder)),
        "device_map": plan.config.get("device_map"),
    }
    with heard(run):
        cls = pipeline_class(options["pipeline"])
        pipeline = _from_folder(
            cls,
            folder,
            torch_dtype=_dtypes(dtype, parts),
            **{key: value for key, value in spread.items() if value is not None},
            **_components(cls, parts, plan.weights, dtype),
            **_arguments(options.get("load", {}), folder),
        )
        add_adapters(pipeline, plan.adapters)
    pipeline.set_progress_bar_config(disable=True)
    backend = replace(plan.backend, prepacks=False)  # adapters and quantisation reach into weights
    for tag, module in _computing(pipeline).items():
        backend.wrap_module(module, tag)
    apply_options(pipeline, plan.config, plan.placement)
    for told in told_of_formats(pipeline.components.values(), plan.placement.device.kind):
        run.warn(told)
    return pipeline


def _computing(pipeline: Any) -> dict[str, Any]:
    """The modules whose `forward` is called, by tag: an autoencoder is entered by its halves."""
    from torch.nn import Module

    parts = {name: part for name, part in pipeline.components.items() if isinstance(part, Module)}
    halves = {
        f"{name}.{half}": getattr(part, half)
        for name, part in parts.items()
        for half in ("encoder", "decoder")
        if hasattr(part, "decode") and isinstance(getattr(part, half, None), Module)
    }
    whole = {name: part for name, part in parts.items() if not hasattr(part, "decode")}
    return {**whole, **halves}


def pipeline_class(name: str) -> type[Any]:
    """The pipeline class of that name.

    Raises:
        DependencyMissing: the installed diffusers has no such class.
    """
    import diffusers

    found = getattr(diffusers, name, None)
    if found is None:
        raise DependencyMissing(
            f"diffusers {diffusers.__version__} has no {name}.",
            hint="pip install --upgrade diffusers",
        )
    cls: type[Any] = found
    return cls


def sharing(pipeline: Any, cls: type[Any]) -> Any:
    """A pipeline of another class around the same components: no second copy, nothing cast.

    (`from_pipe` of diffusers casts every component to one dtype, a VAE kept in fp32 too.)

    Raises:
        InvalidRequest: `cls` needs a component that `pipeline` does not have.
    """
    if type(pipeline) is cls:
        return pipeline
    taken = {**pipeline.config, **pipeline.components}
    parameters = inspect.signature(cls.__init__).parameters
    given = {key: taken[key] for key in parameters if key in taken}
    lacking = [
        key
        for key, parameter in parameters.items()
        if parameter.default is parameter.empty and key not in given and key != "self"
    ]
    if lacking:
        raise InvalidRequest(
            f"{cls.__name__} needs {', '.join(lacking)}, which {type(pipeline).__name__} has not."
        )
    other = cls(**given)
    other.set_progress_bar_config(disable=True)
    return other


def _from_folder(cls: type[Any], folder: Path, **arguments: Any) -> Any:
    import torch
    from safetensors import SafetensorError

    # Pickles run code when they are read, so safetensors only, unless a manifest says otherwise.
    given = {"local_files_only": True, "use_safetensors": True, **arguments}
    try:
        with warnings.catch_warnings():
            # diffusers renames torch_dtype to dtype; both names work from 0.42 to 1.0.
            warnings.filterwarnings("ignore", message=".*torch_dtype.*", category=FutureWarning)
            return cls.from_pretrained(str(folder), **given)
    except torch.OutOfMemoryError:
        raise
    except ImportError as error:
        # A class whose own needs are not met is there, and says so only when it is used.
        raise DependencyMissing(
            f"{cls.__name__} needs a package that is not installed.",
            hint=" ".join(str(error).split()),
        ) from error
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        raise WeightsUnavailable(
            f"{folder} cannot be loaded as {cls.__name__}.",
            hint="It must be a folder in the diffusers layout, with model_index.json.",
        ) from error


def _arguments(load: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The manifest's own arguments. A variant counts where the folder has its files: a copy of
    somebody's own (`model_path`) may have the plain ones only."""
    lacks_variant = not any(folder.glob(f"*/*.{load.get('variant')}.*"))
    return {k: v for k, v in load.items() if not (k == "variant" and lacks_variant)}


def _components_in(folder: Path) -> list[str]:
    index = folder / "model_index.json"
    if not index.is_file():
        raise WeightsUnavailable(
            f"{folder} holds no model_index.json.",
            hint="It must be a folder in the diffusers layout.",
        )
    return list(json.loads(index.read_text(encoding="utf-8")))


def _dtypes(dtype: str, parts: Mapping[str, Any]) -> Any:
    """One dtype, or a mapping where components differ."""
    special = {name: row["dtype"] for name, row in parts.items() if row and "dtype" in row}
    if not special:
        return torch_dtype(dtype)
    return {"default": torch_dtype(dtype), **{k: torch_dtype(v) for k, v in special.items()}}


def _components(
    cls: type[Any], parts: Mapping[str, Any], weights: Mapping[str, Path], dtype: str
) -> dict[str, Any]:
    """Components that are left out (None), or come from weights of their own."""
    accepted = inspect.signature(cls.__init__).parameters
    given: dict[str, Any] = {n: None for n in UNUSED if n in accepted and n not in parts}
    if "safety_checker" in given and "requires_safety_checker" in accepted:
        given["requires_safety_checker"] = False
    for name, row in parts.items():
        if row is None:
            given[name] = None
        elif "class" in row:
            given[name] = _component(row, weights, dtype)
    return given


def _component(row: Mapping[str, Any], weights: Mapping[str, Path], dtype: str) -> Any:
    import diffusers
    import transformers

    home = diffusers if hasattr(diffusers, row["class"]) else transformers
    arguments = {"subfolder": row["subfolder"]} if row.get("subfolder") else {}
    return _from_folder(
        getattr(home, row["class"]),
        weights[row["weights"]],
        torch_dtype=torch_dtype(row.get("dtype", dtype)),
        **arguments,
    )
