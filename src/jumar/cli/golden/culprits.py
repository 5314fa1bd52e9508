"""The operators behind a golden answer that is wrong: a shadow of the request that shows it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.evidence import Evidence
    from jumar.lab.golden import Golden, Outcome

SILENCE = 120.0
"""Seconds for one operator, with its reference on the CPU; more is a hang."""


def culprits(
    golden: Golden, outcome: Outcome, device: str, config: dict[str, Any]
) -> list[Evidence]:
    """What a shadow names in the first request that has a finding; it is kept, so quarantined.

    Raises:
        JumarError: the model cannot be run again under a shadow.
    """
    from jumar.cli.bisect.model import PRELOAD, answering, fingerprint, plain
    from jumar.cli.shadow import LOADING
    from jumar.contracts.requests import GenerateRequest
    from jumar.evidence import Store
    from jumar.isolate import Zygote
    from jumar.lab.shadow.watched import judged

    named = {finding.request for finding in outcome.findings}
    shown = next((one for one in golden.requests if one.name in named), golden.requests[0])
    request = plain(
        GenerateRequest(
            task=golden.task,  # type: ignore[arg-type]
            model=golden.model,
            backend=device,
            inputs=dict(shown.inputs),
            config={**shown.config, **config, "compile": "off"},
        )
    )
    store = Store().ready()
    with Zygote(PRELOAD) as zygote:
        found = judged(
            answering,
            [request],
            device,
            zygote,
            loading=LOADING,
            silence=SILENCE,
            options={"reproducers": store.folder / "inputs"},
        )
    known = fingerprint(device)
    records = [one.evidence(known, time.time()) for one in found.guilty]
    for record in records:
        store.add(record)
    return records
