"""The operators behind a golden answer that is wrong: a shadow of the request that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.evidence import Evidence
    from jumar.lab.golden import Golden, Outcome


def culprits(
    golden: Golden, outcome: Outcome, device: str, config: dict[str, Any]
) -> list[Evidence]:
    """What a shadow names in the first request that has a finding; it is kept, so quarantined.

    Raises:
        JumarError: the model cannot be run again under a shadow.
    """
    from jumar.cli.bisect.model import plain
    from jumar.cli.shadow import shadowed
    from jumar.contracts.requests import GenerateRequest
    from jumar.evidence import Store

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
    _, records = shadowed(request, Store().ready())
    return records
