"""What diffusers and transformers would print, caught and judged instead."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from jumar.contracts.errors import WeightsUnavailable
from jumar.runtime.run import Run

NEW_WEIGHTS = "newly initialized"
"""Both libraries only log that a file lacks weights, and go on with random ones."""

SAID_OTHERWISE = (
    "The following part of your input was truncated",  # `prompts` says it, once per tokenizer
    "Token indices sequence length is longer",
    "requires torchvision",  # Pillow does the same there
    "that should be kept in float32: []",  # the VAE is upcast, and no module minds
)


@contextmanager
def heard(run: Run) -> Iterator[None]:
    """Turn what the libraries log in the block into warnings of the run; show no progress bars.

    Raises:
        WeightsUnavailable: a library has made up weights that the files do not have.
    """
    with ExitStack() as stack:
        stack.enter_context(_no_bars())
        messages = [stack.enter_context(_caught(name)) for name in ("diffusers", "transformers")]
        yield
    for message in (text for texts in messages for text in texts):
        if NEW_WEIGHTS in message:
            raise WeightsUnavailable(
                "The files lack weights that this model has.",
                hint="They are not the files of this model, or not all of them.",
            ) from RuntimeError(message)
        if not any(known in message for known in SAID_OTHERWISE):
            run.warn(" ".join(message.split()))


class _Catcher(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def _caught(name: str) -> Iterator[list[str]]:
    logger, catcher = logging.getLogger(name), _Catcher()
    handlers, propagate, level = logger.handlers, logger.propagate, logger.level
    deaf = level > logging.WARNING  # TRANSFORMERS_VERBOSITY=error would hide made-up weights
    logger.handlers, logger.propagate = [catcher], False
    if deaf:
        logger.setLevel(logging.WARNING)
    try:
        yield catcher.messages
    finally:
        logger.handlers, logger.propagate = handlers, propagate
        if deaf:
            logger.setLevel(level)


@contextmanager
def _no_bars() -> Iterator[None]:
    import diffusers.utils.logging as ours
    import transformers.utils.logging as theirs

    libraries: tuple[Any, ...] = (ours, theirs)
    for library in libraries:
        library.get_logger()  # sets up its printing; later it would undo what catches it
    shown = [library for library in libraries if library.is_progress_bar_enabled()]
    for library in shown:
        library.disable_progress_bar()
    try:
        yield
    finally:
        for library in shown:
            library.enable_progress_bar()
