"""What holds for every test."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no fault of what is tested. The examples are the same in each run, so that a
# change is judged by what it changed; `make fuzz` draws others.
settings.register_profile(
    "jumar",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=not os.environ.get("JUMAR_FUZZ"),
)
settings.load_profile("jumar")


@pytest.fixture(scope="session", autouse=True)
def no_evidence_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Quarantine changes what a device computes, goldens what it is held to: no test meets those
    of before.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUMAR_EVIDENCE", str(tmp_path_factory.mktemp("evidence")))
        patch.setenv("JUMAR_GOLDENS", str(tmp_path_factory.mktemp("goldens")))
        yield
