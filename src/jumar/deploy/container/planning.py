"""Make a plan from a host's facts: only what is there, each line with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from jumar.contracts.errors import DeviceUnavailable, InvalidValue
from jumar.deploy.container.base import (
    Device,
    LeftOut,
    Mount,
    MountNeed,
    Needs,
    Option,
    Plan,
    Variable,
    needs,
)
from jumar.deploy.container.images import brings_cann, check_image
from jumar.deploy.container.steps import inside_steps
from jumar.host.accelerators import in_use
from jumar.host.doctor import id_map
from jumar.host.product import card_nodes, product_line, product_name

if TYPE_CHECKING:
    from jumar.host.facts import DeviceNode, HostFacts

ASCEND = "/usr/local/Ascend"
RESTRICT = "ASCEND_RT_VISIBLE_DEVICES"


def plan(
    facts: HostFacts,
    image: str,
    *,
    devices: Sequence[str] = (),
    user: str | None = None,
    torch: str | None = None,
    cann: Literal["host", "image"] | None = None,
    command: Sequence[str] = (),
) -> Plan:
    """How to start `image` on this host.

    `devices` are numbers of ``/dev/davinciN`` ("v100" for ``/dev/vdavinci100``), all where empty.
    `user` is "uid[:gid]"; `torch` the version inside the image, for the torch_npu to install;
    `cann` says whether the image brings CANN (None: judged by its name).

    Raises DeviceUnavailable where this host has no NPU, InvalidValue for an image of another chip,
    a card that does not exist, or a user that is no number.
    """
    if user is not None and not re.fullmatch(r"\d+(:\d+)?", user):
        raise InvalidValue(f"{user!r} is no UID[:GID].", hint="For example 1000:1000", param="user")
    nodes = chosen(facts, devices)
    line, chip = product_of(facts, nodes)
    if line is None:
        raise DeviceUnavailable(
            "Neither npu-smi nor the PCI bus says which Ascend product this is.",
            hint="Record the host itself, with npu-smi: jumar host snapshot out.tar.gz",
        )
    check_image(image, line, chip, facts.system.arch)
    source: Literal["host", "image"] = cann or ("image" if brings_cann(image) else "host")
    wanted = needs().of(line)
    options = tuple(container_options(facts, wanted, nodes, line, user))
    privileged = any(option.name == "privileged" for option in options)
    handed, missing = nodes_to_hand_over(facts, wanted, nodes)
    mounts, left_out = mounts_to_make(facts, wanted, source)
    return Plan(
        image=image,
        line=line,
        cards=tuple(node.number for node in nodes if node.number is not None),
        devices=() if privileged else tuple(handed),
        mounts=tuple(mounts),
        options=options,
        environment=tuple(variables(facts, nodes, options)),
        steps=tuple(inside_steps(facts, image, line, source, torch)),
        command=tuple(command),
        left_out=(*missing, *left_out),
        warnings=tuple(warnings(facts, nodes, user)),
    )


def product_of(facts: HostFacts, nodes: Iterable[DeviceNode]) -> tuple[str | None, str]:
    """The product line and the chip of the chosen cards, which must be of one line."""
    paths = {node.path for node in nodes}
    chips = {
        card.soc.variant: card.soc.name
        for card in facts.cards
        if card.soc is not None and card.node in paths
    }
    if len(chips) > 1:
        raise InvalidValue(
            f"The chosen cards are of several products: {', '.join(chips.values())}.",
            hint="Plan one container for each: --devices",
            param="devices",
        )
    return next(iter(chips.items()), (product_line(facts), product_name(facts)))


def chosen(facts: HostFacts, devices: Sequence[str]) -> list[DeviceNode]:
    """The nodes that were asked for, in the order of their numbers; all where none was."""
    present = {node.path.removeprefix("/dev/"): node for node in card_nodes(facts)}
    if not present:
        raise DeviceUnavailable(
            "This host has no /dev/davinciN.",
            hint="Run this on the host, or give a recorded one: --host FILE. Else: jumar doctor",
        )
    names = [f"vdavinci{d[1:]}" if d.startswith("v") else f"davinci{d}" for d in devices]
    for name in names:
        if name not in present:
            known = ", ".join(key.replace("davinci", "") for key in present)
            raise InvalidValue(
                f"This host has no /dev/{name}.",
                hint=f"Valid: {known}. These are the N of /dev/davinciN, not npu-smi's numbers.",
                param="devices",
            )
    return [node for name, node in present.items() if not names or name in names]


def nodes_to_hand_over(
    facts: HostFacts, wanted: Needs, nodes: Iterable[DeviceNode]
) -> tuple[list[Device], list[LeftOut]]:
    """The cards and the nodes they need; those that do not exist are left out."""
    handed = [Device(node.path, "a chosen card") for node in nodes]
    left_out = []
    for need in wanted.devices:
        if facts.node(need.path) is not None:
            handed.append(Device(need.path, need.why))
        else:
            left_out.append(LeftOut(need.path, "does not exist on this host", need.needed))
    return handed, left_out


def mounts_to_make(facts: HostFacts, wanted: Needs, cann: str) -> tuple[list[Mount], list[LeftOut]]:
    """The mounts whose sources exist and are what they should be, and why others are not made."""
    mounts: list[Mount] = []
    left_out: list[LeftOut] = []
    for need in wanted.mounts:
        if need.cann not in (None, cann):
            continue
        found = sources(facts, need)
        mounts += [
            Mount(path, need.target or path, need.kind, need.write, need.why) for path in found
        ]
        if not found:
            left_out.append(LeftOut(need.path, why_not(facts, need), need.needed))
    if cann == "host":
        mounts += link_targets(facts)
    return mounts, left_out


def sources(facts: HostFacts, need: MountNeed) -> list[str]:
    """The paths of a need that exist and are of its kind."""
    head = need.path.removesuffix("*")
    named = sorted(facts.paths) if need.path.endswith("*") else [need.path]
    return [
        path
        for path in named
        if path.startswith(head) and path in facts.paths and facts.paths[path].kind == need.kind
    ]


def why_not(facts: HostFacts, need: MountNeed) -> str:
    """Why a need has no source on this host."""
    if need.path.endswith("*"):
        return "no such file on this host"
    fact = facts.path(need.path)
    if fact is None:
        return "nobody looked whether it exists on this host"
    if not fact.exists:
        return "does not exist on this host; Docker would make an empty folder of it"
    return f"is a {fact.kind} on this host, and should be a {need.kind}"


def link_targets(facts: HostFacts) -> Iterator[Mount]:
    """Folders outside /usr/local/Ascend that links inside it lead to."""
    made = set()
    for link in facts.links:
        outside = link.resolved is not None and not link.resolved.startswith(f"{ASCEND}/")
        if link.path.startswith(f"{ASCEND}/") and outside and link.resolved not in made:
            made.add(link.resolved)
            target = str(link.resolved)
            yield Mount(target, target, "directory", False, f"{link.path} is a link to it")


def container_options(
    facts: HostFacts, wanted: Needs, nodes: Sequence[DeviceNode], line: str, user: str | None
) -> Iterator[Option]:
    """Rights, network, shared memory, user."""
    runtime = facts.container.ascend_runtime is True
    virtual = any(node.path.startswith("/dev/vdavinci") for node in nodes)
    if line == "950" and runtime:
        why = "the 950 driver refuses other containers (error 87) unless they are privileged"
        yield Option("runtime", "ascend", why)
    elif line == "950":
        yield Option(
            "privileged",
            None,
            "the 950 driver answers 87 otherwise, whatever capabilities it is given; all of /dev "
            "comes with it (the Ascend Docker Runtime would do instead, it is not installed)",
        )
    elif virtual and not runtime:
        yield Option("privileged", None, "virtual NPUs were reported to fail with 107001 otherwise")
    yield Option("net", "host", "HCCL binds ports of the host, and servers need no port mapping")
    for need in wanted.shm:
        yield Option("shm-size", need.size, need.why)
    if user is not None and user.split(":")[0] != "0":
        yield Option("user", user, "asked for")
        groups = sorted({node.gid for node in nodes if node.gid is not None})
        for gid in groups:
            names = {node.group for node in nodes if node.gid == gid and node.group}
            whose = f" ({', '.join(sorted(names))})" if names else ""
            yield Option(
                "group-add",
                str(gid),
                f"the device nodes belong to this group{whose}, and others may not open them",
            )


def variables(
    facts: HostFacts, nodes: Sequence[DeviceNode], options: Sequence[Option]
) -> Iterator[Variable]:
    """What the container is told about its cards."""
    numbers = [node.number for node in nodes if node.number is not None]
    names = {option.name for option in options}
    everything = len(nodes) == len(card_nodes(facts))
    if "runtime" in names:
        listed = ",".join(map(str, numbers))
        yield Variable(
            "ASCEND_VISIBLE_DEVICES", listed, "the Ascend Docker Runtime hands over these cards"
        )
    elif "privileged" in names and not everything:
        logic = {row.phy_id: row.logic_id for row in id_map(facts)}
        inside = ",".join(str(logic[number]) for number in numbers if number in logic)
        yield Variable(
            RESTRICT,
            inside,
            "a privileged container sees all cards; these are the logic ids of the chosen ones",
        )


def warnings(facts: HostFacts, nodes: Sequence[DeviceNode], user: str | None) -> Iterator[str]:
    """What can still go wrong."""
    chosen_paths = {node.path for node in nodes}
    for node in nodes:
        for holder in node.holders or ():
            yield (
                f"{node.path} is held by pid {holder.pid} {holder.name}: unless device sharing is "
                "on, a second container cannot open it (-8020)."
            )
    held = {node.path for node in nodes if node.holders}
    for card in facts.cards:
        memory = card.memory
        if memory is not None and card.node in chosen_paths - held and in_use(card):
            yield f"{card.node} has {memory.used} of {memory.total} MB in use by somebody."
    if user is not None and user.split(":")[0] != "0":
        yield (
            f"The image must know the uid {user.split(':')[0]}: without a passwd entry HCCL fails "
            "with error 19."
        )
