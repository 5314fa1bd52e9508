"""The doctor: rules over `HostFacts` that name the cause, and say what they could not look at.

>>> from jumar.host import open_host
>>> from jumar.host.doctor import examine
>>> diagnosis = examine(open_host("broken.tar.gz"), "serve")
>>> [finding.title("en") for finding in diagnosis.findings]
['The CANN environment is not loaded']

`rules/*.yaml` hold every sentence in English and Chinese, `checks/` the conditions, `engine` puts
consequences below their causes, `logs` finds known error texts in log files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.host.doctor.base import Finding, Rule
    from jumar.host.doctor.engine import Diagnosis, Unseen, arrange, examine
    from jumar.host.doctor.ids import id_map
    from jumar.host.doctor.logs import classify

__all__ = ["Diagnosis", "Finding", "Rule", "Unseen", "arrange", "classify", "examine", "id_map"]

_HOMES = {
    "Diagnosis": "engine",
    "Finding": "base",
    "Rule": "base",
    "Unseen": "engine",
    "arrange": "engine",
    "classify": "logs",
    "examine": "engine",
    "id_map": "ids",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
