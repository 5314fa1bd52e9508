"""A model of transformers from a folder: complete, quietly, without the network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.contracts.errors import WeightsUnavailable
from jumar.devices.base import Placement
from jumar.runtime.families.precision import torch_dtype


def model_and_tokenizer(
    kind: Any,
    folder: Path,
    dtype: str,
    placement: Placement,
    *,
    unused: tuple[str, ...] = (),
    **options: Any,
) -> tuple[Any, Any]:
    """`kind.from_pretrained(folder)` on its device, ready to run, and its tokenizer.

    transformers fills what a checkpoint lacks with random numbers; here that is an error, except
    for the modules named in `unused`.

    Raises:
        WeightsUnavailable: no such checkpoint, or an incomplete one.
    """
    from transformers import AutoTokenizer

    try:
        with _no_bars():
            model, found = kind.from_pretrained(
                folder,
                dtype=torch_dtype(dtype),
                local_files_only=True,
                output_loading_info=True,
                **options,
            )
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise WeightsUnavailable(f"{folder} holds no {kind.__name__} of transformers.") from error
    lacking = [str(each) for each in (*found["missing_keys"], *found["mismatched_keys"])]
    if lacking := [name for name in lacking if name.partition(".")[0] not in unused]:
        raise WeightsUnavailable(
            f"The checkpoint {folder} lacks {len(lacking)} tensors, as {sorted(lacking)[0]}."
        )
    return model.to(placement.torch_device).eval(), tokenizer


@contextmanager
def _no_bars() -> Iterator[None]:
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
