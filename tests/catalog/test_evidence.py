"""Nobody claims more than a file in this repository shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from jumar import catalog

ROOT = Path(__file__).parents[2]
CLAIMS = [
    (row.id, kind, status)
    for row in catalog.rows()
    for kind, status in catalog.get(row.id).backends.items()
    if status.status in ("validated", "emulated")
]


@pytest.mark.parametrize(("model", "kind", "status"), CLAIMS, ids=lambda value: str(value)[:30])
def test_the_evidence_of_a_claim_is_here(model: str, kind: str, status: object) -> None:
    evidence = ROOT / str(status.evidence)  # type: ignore[attr-defined]
    assert evidence.is_file()
    text = evidence.read_text(encoding="utf-8")
    assert model in text or "embedded" in text, f"{evidence} does not speak of {model}"


def test_nothing_is_validated_on_an_npu() -> None:
    assert not [claim for claim in CLAIMS if claim[1] == "npu" and claim[2].status == "validated"]
