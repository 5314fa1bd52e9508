"""What is bound, as people and programs read it: a line in the log, and JSON."""

from __future__ import annotations

import json
import os
from collections import Counter
from typing import Any

from jumar.evidence import Store
from jumar.vllm.activation import LOGGER
from jumar.vllm.operators.process import Process

TIERS = {
    "torch_npu": "vendor.ascend",
    "flag_gems": "default.flagos",
    "reference": "reference.torch",
    "vllm": "native.vllm",
}
"""Implementations as vllm-plugin-FL's log names them, which operators of such servers know. Others
stand under their own name."""


def tier(implementation: str) -> str:
    """`vendor.ascend` of `torch_npu`."""
    return TIERS.get(implementation, implementation)


def log(here: Process) -> None:
    """One line of what this process bound; one for each thing that is out of the ordinary."""
    listed = ", ".join(f"{one.operator} → {tier(one.implementation)}" for one in here.bound())
    LOGGER.info("Operators on %s: %s", _where(here), listed or "the device's own")
    for one in here.decisions.quarantine.rules:
        LOGGER.warning("In quarantine: %s: %s (evidence %s)", one.subject, one.verdict, one.id)
    for sentence in here.told:
        LOGGER.warning("%s", sentence)


def _where(here: Process) -> str:
    """`npu:0 (emulated), rank 1 of 2`."""
    rank, ranks = _rank()
    emulated = " (emulated)" if _emulated(here) else ""
    return f"{here.device}{emulated}" + (f", rank {rank} of {ranks}" if ranks > 1 else "")


def _emulated(here: Process) -> bool:
    return here.fingerprint["device_class"].endswith("-emulated")


def _rank() -> tuple[int, int]:
    from vllm.distributed import parallel_state

    if not parallel_state.model_parallel_is_initialized():
        return 0, 1
    world = parallel_state.get_world_group()
    return world.rank, world.world_size


def as_dict(here: Process) -> dict[str, Any]:
    """The same for programs; `implementation` is Jumar's name, `shown` that of the log.

    JSON's own types and no subclass of them (names keep their place in a policy): vLLM's engine
    answers nobody any more after an object that it cannot send.
    """
    rules = here.decisions.quarantine
    verdicts = Counter(one.verdict for one in Store())
    said = {
        "rank": _rank()[0],
        "pid": os.getpid(),
        "device": here.device,
        "device_class": here.fingerprint["device_class"],
        "emulated": _emulated(here),
        "fingerprint": here.fingerprint,
        "operators": [
            {**one._asdict(), "shown": tier(one.implementation)} for one in here.bound()
        ],
        "not_followed": list(here.told),
        "quarantine": [
            {**one.subject.model_dump(), "evidence": one.id, "verdict": one.verdict,
             "reason": one.reason}
            for one in rules.rules
        ],
        "evidence": {
            "records": sum(verdicts.values()),
            "verdicts": dict(sorted(verdicts.items())),
            "in_force": len(rules.rules),
            "expired": len(rules.expired),
        },
    }  # fmt: skip
    plain: dict[str, Any] = json.loads(json.dumps(said))
    return plain
