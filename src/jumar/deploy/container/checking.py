"""From inside a running container: what it was not given, by the same rows as the plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jumar.contracts.errors import InvalidRequest
from jumar.deploy.container.base import needs
from jumar.host.doctor import examine
from jumar.host.product import card_nodes, product_line

if TYPE_CHECKING:
    from jumar.host.doctor import Diagnosis
    from jumar.host.facts import HostFacts

TOPICS = {"container", "devices", "environment", "visibility"}
"""What depends on how the container was started."""


@dataclass(frozen=True)
class Given:
    """One thing that this product needs: whether it is here, and what to add where it is not."""

    path: str
    state: Literal["present", "missing", "wrong", "unknown"]
    needed: bool
    why: str
    add: str | None = None
    """The option of ``docker run`` that hands it over."""


def check(facts: HostFacts) -> tuple[list[Given], Diagnosis]:
    """The rows of this product with their state, and the doctor's findings about the container.

    Raises InvalidRequest outside a container.
    """
    if facts.container.inside is False:
        raise InvalidRequest(
            "This is not a container.", hint="On the host: jumar container plan --image IMAGE"
        )
    diagnosis = examine(facts)
    about = tuple(f for f in diagnosis.findings if f.rule.topic in TOPICS)
    return given(facts), type(diagnosis)(about, diagnosis.unseen, diagnosis.looked)


def given(facts: HostFacts) -> list[Given]:
    """Every device and mount of the product; of one that is not known what several have."""
    line = product_line(facts)
    wanted = needs().of(line) if line is not None else needs().common
    cards = card_nodes(facts)
    found = [Given(node.path, "present", True, "a card") for node in cards]
    if not cards:
        found.append(Given("/dev/davinci*", "missing", True, "a card", "--device=/dev/davinci0"))
    for device in wanted.devices:
        needed = device.needed and (line is not None or not device.products)
        add = None
        state: Literal["present", "missing", "wrong", "unknown"] = "present"
        if facts.node(device.path) is None:
            state = "missing" if facts.sees("nodes") else "unknown"
            add = f"--device={device.path}"
        found.append(Given(device.path, state, needed, device.why, add))
    for mount in wanted.mounts:
        if mount.cann == "host" or mount.write:
            continue
        target = mount.target or mount.path
        state = state_of(facts, target, mount.kind)
        needed = mount.needed and (line is not None or not mount.products)
        add = f"--mount=type=bind,src={mount.path},dst={target},readonly"
        if target.endswith("*"):
            add = f"one such --mount for each {mount.path} of the host, under its own name"
        found.append(Given(target, state, needed, mount.why, None if state == "present" else add))
    return found


def state_of(
    facts: HostFacts, path: str, kind: str
) -> Literal["present", "missing", "wrong", "unknown"]:
    """Whether a path, or one that begins so where it ends in ``*``, is here and of its kind."""
    head = path.removesuffix("*")
    if path.endswith("*"):
        kinds = {fact.kind for name, fact in facts.paths.items() if name.startswith(head)}
        if not kinds and not facts.sees(f"paths.{head.rsplit('/', 1)[0]}"):
            return "unknown"
    else:
        fact = facts.path(path)
        if fact is None:
            return "unknown"
        kinds = {fact.kind} if fact.exists else set()
    return "present" if kind in kinds else "wrong" if kinds else "missing"
