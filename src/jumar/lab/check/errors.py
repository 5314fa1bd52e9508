"""What an exception of an implementation says: a defect, a limit that it states, or no memory."""

from __future__ import annotations

import re

from jumar.evidence.records import Kind, Verdict

SIGNS: tuple[tuple[Kind, str, str], ...] = (
    ("out_of_memory", r"OutOfMemoryError", r"out of memory"),
    (
        "compile_error",
        r"Compil(ation|e)\w*Error|MLIR\w*",
        r"MLIR|ptxas|bisheng|(compil\w*|jit)[^.\n]{0,40}(fail|error)|fail\w*[^.\n]{0,20}compil",
    ),
    (
        "unsupported",
        r"NotImplementedError|Unsupported\w*",
        r"not implemented for|not support|unsupported|not emulated|in libopapi|Could not run",
    ),
)
"""Kind, what the exception's type may be called, what its text may say; the first that fits."""


def verdict(error: BaseException) -> Verdict:
    """`raises`, or what the signs say."""
    name, text = type(error).__name__, " ".join(str(error).split())
    said = f"{name}: {text}"[:500]
    for kind, types, words in SIGNS:
        if re.fullmatch(types, name) or re.search(words, text, re.IGNORECASE):
            return Verdict(kind, said)
    return Verdict("raises", said)
