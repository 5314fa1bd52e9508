"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def no_evidence_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Quarantine changes what a device computes: no test meets what was found out before it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUMAR_EVIDENCE", str(tmp_path_factory.mktemp("evidence")))
        yield
