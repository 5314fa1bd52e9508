"""What checks share: how they register, and a few questions that many of them ask."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from jumar.host.doctor.base import CannotLook, Values

if TYPE_CHECKING:
    from jumar.host.facts import Cann, Card, HostFacts, PathFact

Check = Callable[["HostFacts"], Iterable[Values]]

CHECKS: dict[str, Check] = {}
"""Every check by the id of its rule: yields one mapping per line of evidence, or nothing."""

ASCEND = "/usr/local/Ascend"
SET_ENV = f"{ASCEND}/ascend-toolkit/set_env.sh"
TRUE = {"1", "true", "yes", "on"}


def check(rule: str) -> Callable[[Check], Check]:
    """Register a check under the id of its rule."""

    def register(function: Check) -> Check:
        CHECKS[rule] = function
        return function

    return register


def inside(facts: HostFacts) -> bool:
    return facts.container.inside is True


def set_env(facts: HostFacts) -> str:
    """The script to source here."""
    scripts = [cann.set_env for cann in (facts.cann, *facts.canns) if cann and cann.set_env]
    return next(iter(scripts), SET_ENV)


def python(facts: HostFacts) -> str:
    return facts.python.executable or "python3"


def cann_home(facts: HostFacts) -> str | None:
    """The CANN that the environment names."""
    names = ("ASCEND_TOOLKIT_HOME", "ASCEND_HOME_PATH", "ASCEND_TOOLKIT_LATEST_HOME")
    return next((facts.environ[name] for name in names if facts.environ.get(name)), None)


def cann_of(facts: HostFacts, path: str) -> Cann | None:
    """The CANN installation that a path lies in, links resolved."""
    resolved = facts.resolve(posixpath.normpath(path))
    for cann in facts.canns:
        if any(f"{resolved}/".startswith(f"{name}/") for name in (cann.root, *cann.aliases)):
            return cann
    return None


def seen_path(facts: HostFacts, name: str) -> PathFact:
    """The fact about a path; raises CannotLook where nobody looked."""
    fact = facts.path(name)
    if fact is None or not facts.sees(f"paths.{name}"):
        raise CannotLook(name, facts.unseen.get(f"paths.{name}"))
    return fact


def numbers(card: Card) -> dict[str, object]:
    """How a card is named in evidence and fixes."""
    return {
        "npu": card.npu_id,
        "chip": 0 if card.chip_id is None else card.chip_id,
        "name": card.soc.name if card.soc else card.name,
        "node": card.node or "/dev/davinci?",
    }


def first_lines(text: str, count: int = 2) -> str:
    """The first lines of a tool's error, on one line."""
    return " / ".join(line.strip() for line in text.strip().splitlines()[:count])


def versions(facts: HostFacts, *names: str) -> Iterator[tuple[str, str]]:
    """(name, version) of those packages that are installed."""
    for name in names:
        version = facts.python.version_of(name)
        if version is not None:
            yield name, version
