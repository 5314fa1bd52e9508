"""Which vLLM is known to work."""

from __future__ import annotations

import pytest

from jumar.vllm.versions import TESTED, untested


@pytest.mark.parametrize("version", [*TESTED, "0.24.0+empty"])
def test_nothing_is_said_of_a_version_that_was_tested(version):
    assert untested(version) is None


@pytest.mark.parametrize("version", ["0.23.0", "0.24.1", "0.34.0", "0.24.0rc1"])
def test_of_another_version_is_said_what_was_tested(version):
    said = untested(version)
    assert said is not None and version in said and all(one in said for one in TESTED)
