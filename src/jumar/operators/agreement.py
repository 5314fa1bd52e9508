"""The same decision on every rank, or none: decisions are data, and ranks compare their hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from jumar.contracts.errors import RunFailed

Decided = Mapping[str, str | list[str]]


def digest(decisions: Decided) -> str:
    """The SHA-256 of the decisions in one canonical form, in hex."""
    text = json.dumps(dict(decisions), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def agree(decisions: Decided, *, group: Any = None) -> str:
    """See that all ranks of a process group decided the same, and return the digest of it.

    Every rank has to call it, before anything is computed. Without a process group, or as the only
    rank, there is nobody to disagree with.

    Raises:
        RunFailed: they did not; on every rank, naming the operators and what each rank decided.
    """
    from torch import distributed

    mine = digest(decisions)
    if not distributed.is_available() or not distributed.is_initialized():
        return mine
    ranks = distributed.get_world_size(group)
    digests: list[Any] = [None] * ranks
    distributed.all_gather_object(digests, mine, group=group)
    if set(digests) == {mine}:
        return mine
    every: list[Any] = [None] * ranks
    distributed.all_gather_object(every, dict(decisions), group=group)
    raise RunFailed(
        f"Ranks disagree about who computes {_differences(every)}.",
        hint="Give all ranks the same policy, evidence and libraries.",
    )


def _differences(every: list[Decided]) -> str:
    """`rms_norm (rank 0 torch_npu, rank 1 reference)` for each operator that differs."""
    told = []
    for operator in sorted({name for one in every for name in one}):
        chosen = [str(one.get(operator, "nobody")) for one in every]
        if len(set(chosen)) > 1:
            listed = ", ".join(f"rank {rank} {name}" for rank, name in enumerate(chosen))
            told.append(f"{operator} ({listed})")
    return "; ".join(told)
