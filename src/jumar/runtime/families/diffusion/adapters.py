"""LoRA weights on top of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.contracts.errors import DependencyMissing, InvalidInput, InvalidValue
from jumar.contracts.requests import AdapterRef


def check_adapters(adapters: Sequence[AdapterRef]) -> None:
    """What can be said of the files before anything is loaded.

    Raises:
        InvalidInput: not a safetensors file, or not there.
    """
    for adapter in adapters:
        path = _path(adapter)
        if path.suffix != ".safetensors":
            raise InvalidInput(
                f"The adapter {path} is no .safetensors file; other formats can run code.",
                param="adapters",
            )
        if not path.is_file():
            raise InvalidInput(f"The adapter {path} does not exist.", param="adapters")


def add_adapters(pipeline: Any, adapters: Sequence[AdapterRef]) -> None:
    """Load each adapter and blend it in at its scale (0: as if it were not there).

    Raises:
        InvalidInput: not a safetensors file, unreadable, or without weights for this pipeline.
        InvalidValue: this pipeline takes no LoRA.
        DependencyMissing: peft is not installed.
    """
    if not adapters:
        return
    if not hasattr(pipeline, "load_lora_weights"):
        raise InvalidValue(f"{type(pipeline).__name__} takes no LoRA.", param="adapters")
    if find_spec("peft") is None:
        raise DependencyMissing("LoRA adapters need peft.", hint="pip install peft")
    check_adapters(adapters)
    names = [f"adapter_{number}" for number in range(len(adapters))]
    for name, adapter in zip(names, adapters, strict=True):
        _load(pipeline, adapter, name)
    pipeline.set_adapters(names, [adapter.scale for adapter in adapters])


def _load(pipeline: Any, adapter: AdapterRef, name: str) -> None:
    path = _path(adapter)
    try:
        pipeline.load_lora_weights(
            str(path.parent), weight_name=path.name, adapter_name=name, local_files_only=True
        )
    # A file that is no LoRA makes diffusers stumble anywhere (KeyError, IndexError, …).
    except Exception as error:
        raise InvalidInput(
            f"The adapter {path} cannot be used with {type(pipeline).__name__}.", param="adapters"
        ) from error
    # diffusers only warns where no key of the file names a layer of the pipeline.
    if not any(name in names for names in pipeline.get_list_adapters().values()):
        raise InvalidInput(
            f"The adapter {path} has no weights for {type(pipeline).__name__}.", param="adapters"
        )


def _path(adapter: AdapterRef) -> Path:
    return Path(adapter.path).expanduser()
