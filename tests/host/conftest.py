"""`make_host` for every test below this folder: a recorded host in this test's own folder."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.host.recorded import make_host as build


@pytest.fixture
def make_host(tmp_path: Path) -> Callable[..., str]:
    """See `recorded.make_host`; the folder is already given."""
    made: Callable[..., Any] = partial(build, tmp_path)
    return made
