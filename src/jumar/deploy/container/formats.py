"""A plan as a docker command, a compose file or a Kubernetes pod."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from jumar.deploy.container.base import Mount, Plan, Variable, needs

NAME = "jumar"
WAIT = "sleep infinity"


def docker(plan: Plan, *, explain: bool = False) -> str:
    """A shell command, then the steps inside as comments.

    ``--mount`` rather than ``-v``: where a source has vanished, Docker then says so, and does not
    make an empty folder of that name.
    """
    rows = list(docker_rows(plan))
    start = "docker run --rm -it" if not plan.command else "docker run --rm"
    parts = [start, *(row for row, _ in rows)]
    tail = ["--entrypoint", "bash", plan.image]
    if plan.command:
        tail += ["-c", script(plan, "; ")]
    lines = [" \\\n  ".join([*parts, shlex.join(tail)])]
    if not plan.command:
        lines += ["", "# then, inside:", *(step.run for step in plan.steps)]
    if explain:
        lines += ["", "# why:"]
        lines += [f"#   {row}\n#       {why}" for row, why in rows]
        lines += [f"#   {step.run}\n#       {step.why}" for step in plan.steps]
    return "\n".join([*lines, *notes(plan)]) + "\n"


def docker_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Each option of the command with its reason."""
    for option in plan.options:
        value = "" if option.value is None else f"={shlex.quote(option.value)}"
        yield f"--{option.name}{value}", option.why
    for device in plan.devices:
        yield f"--device={device.path}", device.why
    for mount in plan.mounts:
        yield f"--mount={docker_mount(mount)}", mount.why
    for variable in plan.environment:
        yield f"--env={variable.name}={shlex.quote(variable.value)}", variable.why


def docker_mount(mount: Mount) -> str:
    readonly = "" if mount.write else ",readonly"
    return f"type=bind,src={mount.source},dst={mount.target}{readonly}"


def compose(plan: Plan, *, explain: bool = False) -> str:
    """A compose file with one service; ``create_host_path: false`` refuses missing sources."""
    service: dict[str, Any] = {"image": plan.image}
    keys = {"net": "network_mode", "shm-size": "shm_size", "user": "user", "runtime": "runtime"}
    whys: dict[str, str] = {}
    for option in plan.options:
        if option.name == "privileged":
            service["privileged"] = True
            whys["privileged: true"] = option.why
        elif option.name == "group-add":
            service.setdefault("group_add", []).append(option.value)
            whys[f"- '{option.value}'"] = option.why
        else:
            service[keys[option.name]] = option.value
            whys[f"{keys[option.name]}: {quoted(str(option.value))}"] = option.why
    if plan.devices:
        service["devices"] = [f"{device.path}:{device.path}" for device in plan.devices]
        whys.update({f"- {d.path}:{d.path}": d.why for d in plan.devices})
    service["volumes"] = [compose_mount(mount) for mount in plan.mounts]
    whys.update({f"source: {mount.source}": mount.why for mount in plan.mounts})
    if plan.environment:
        service["environment"] = {one.name: one.value for one in plan.environment}
        whys.update({variable_line(one): one.why for one in plan.environment})
    service["entrypoint"] = ["bash", "-c"]
    # Compose itself expands $name; a doubled sign is left to the shell.
    service["command"] = [script(plan).replace("$", "$$")]
    return as_yaml([{"services": {NAME: service}}], plan, whys if explain else {})


def compose_mount(mount: Mount) -> dict[str, Any]:
    return {
        "type": "bind",
        "source": mount.source,
        "target": mount.target,
        **({} if mount.write else {"read_only": True}),
        "bind": {"create_host_path": False},
    }


def kubernetes(plan: Plan, *, explain: bool = False) -> str:
    """A pod. The cards come from the device plugin, which chooses them; types of host paths are
    given, so that a missing one is an error."""
    resource, count = needs().resources[plan.line], len(plan.cards)
    user = plan.option("user")
    whys = {f"{resource}: {count}": "the device plugin hands over this many cards"}
    security: dict[str, Any] = {}
    if (privileged := plan.option("privileged")) is not None:
        security["privileged"] = True
        whys["privileged: true"] = privileged.why
    pod_security: dict[str, Any] = {}
    if user is not None and user.value is not None:
        uid, _, gid = user.value.partition(":")
        pod_security["runAsUser"] = int(uid)
        if gid:
            pod_security["runAsGroup"] = int(gid)
        groups = [o for o in plan.options if o.name == "group-add" and o.value]
        pod_security["supplementalGroups"] = [int(str(o.value)) for o in groups]
        whys.update({f"- {o.value}": o.why for o in groups})
    shm = plan.option("shm-size")
    size = f"{shm.value[:-1]}Gi" if shm is not None and shm.value else "1Gi"
    if shm is not None:
        whys[f"sizeLimit: {size}"] = shm.why
    names = [f"host-{number}" for number in range(len(plan.mounts))]
    whys.update({f"path: {mount.source}": mount.why for mount in plan.mounts})
    container = {
        "name": NAME,
        "image": plan.image,
        "command": ["bash", "-c", script(plan)],
        **({"securityContext": security} if security else {}),
        "resources": {"limits": {resource: count}},
        "volumeMounts": [
            *(
                {
                    "name": name,
                    "mountPath": mount.target,
                    **({} if mount.write else {"readOnly": True}),
                }
                for name, mount in zip(names, plan.mounts, strict=True)
            ),
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }
    kinds = {"file": "File", "directory": "Directory"}
    spec = {
        "restartPolicy": "Never",
        "hostNetwork": True,
        **({"securityContext": pod_security} if pod_security else {}),
        "containers": [container],
        "volumes": [
            *(
                {"name": name, "hostPath": {"path": mount.source, "type": kinds[mount.kind]}}
                for name, mount in zip(names, plan.mounts, strict=True)
            ),
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}},
        ],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": NAME}, "spec": spec}
    runtime = plan.option("runtime")
    chosen = (
        f"# The device plugin chooses the cards: {count} of them, not these: "
        f"{', '.join(map(str, plan.cards))}.\n"
        f"# {resource} is its usual name for them; kubectl describe node shows yours.\n"
    )
    if privileged is not None:
        chosen += (
            "# A privileged pod sees all cards: inside, set ASCEND_RT_VISIBLE_DEVICES to those "
            "given.\n"
        )
    if runtime is not None:
        chosen += f"# The nodes' container runtime must be the Ascend one: {runtime.why}.\n"
    return chosen + as_yaml([pod], plan, whys if explain else {})


def script(plan: Plan, joint: str = "\n") -> str:
    """The steps, then the command.

    Steps must succeed, but for the first ones: a script that is sourced may return non-zero though
    it did its work (CANN's, where /etc/ascend_install.info is missing).
    """
    last = shlex.join(plan.command) if plan.command else WAIT
    sourced = [step.run for step in plan.steps if step.run.startswith("source ")]
    others = [step.run for step in plan.steps if step.run not in sourced]
    return joint.join([*sourced, "set -e", *others, f"exec {last}"])


def as_yaml(documents: Sequence[dict[str, Any]], plan: Plan, whys: dict[str, str]) -> str:
    """YAML with the reason of a line behind it, and the notes of the plan."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Long texts as blocks."""

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    body = yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=1000)
    lines = []
    for line in body.splitlines():
        why = whys.get(line.strip())
        lines.append(f"{line}  # {why}" if why else line)
    return "\n".join([*lines, *notes(plan)]) + "\n"


def quoted(text: str) -> str:
    """As YAML writes a text that looks like a number."""
    return f"'{text}'" if text.replace(":", "").isdecimal() else text


def variable_line(variable: Variable) -> str:
    return f"{variable.name}: {quoted(variable.value)}"


def notes(plan: Plan) -> Iterator[str]:
    """What was left out, and what can still go wrong, as comments."""
    if plan.left_out:
        yield ""
        yield "# left out:"
    for one in plan.left_out:
        mark = " (NEEDED)" if one.needed else ""
        yield f"#   {one.path}{mark}: {one.why}"
    for warning in plan.warnings:
        yield f"# warning: {warning}"
