"""Golden answers: what a model has to say on a kind of device before anybody relies on it there.

golden = files.read(folder)
outcome = verify(golden, key, ask, made_on=fingerprint)     # ask(request) -> answers
outcome.status                                              # matched, failed, unverified
"""

from __future__ import annotations

from jumar.lab.golden.base import Ask, Finding, Golden, Key, Outcome, Reference, Request
from jumar.lab.golden.checks import covered, record, sentence, verify
from jumar.lab.golden.files import read, write
from jumar.lab.golden.sets import Facts, usual_requests

__all__ = [
    "Ask",
    "Facts",
    "Finding",
    "Golden",
    "Key",
    "Outcome",
    "Reference",
    "Request",
    "covered",
    "read",
    "record",
    "sentence",
    "usual_requests",
    "verify",
    "write",
]
