"""What to do inside a container after its start: load CANN, install the right torch_npu."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from jumar.deploy.container.base import Step
from jumar.deploy.container.images import brings_torch_npu, cann_in_tag
from jumar.host.doctor.pairs import release, same_set, torch_npu_pairs
from jumar.host.ranges import version_key

if TYPE_CHECKING:
    from jumar.host.facts import HostFacts

ASCEND = "/usr/local/Ascend"
SET_ENV = f"{ASCEND}/ascend-toolkit/set_env.sh"
ATB_ENV = f"{ASCEND}/nnal/atb/set_env.sh"
DRIVER_FOLDERS = ("driver/lib64/driver", "driver/lib64/common", "driver/lib64")
PROOF = "import torch, torch_npu; print(torch.npu.is_available(), torch.npu.device_count())"


def inside_steps(
    facts: HostFacts, image: str, line: str, cann: str, torch: str | None
) -> Iterator[Step]:
    """The steps in order. `cann`: "host" where the host's CANN is mounted, else "image"."""
    yield Step(f"source {set_env(facts, cann)}", "loads CANN; without it importing torch_npu fails")
    if cann == "host" and facts.nnal is not None:
        yield Step(f"source {facts.nnal.set_env or ATB_ENV}", "loads ATB, which torch_npu calls")
    yield Step(
        f"export LD_LIBRARY_PATH={':'.join(library_folders(facts, line, cann))}:"
        "${LD_LIBRARY_PATH:-}",
        library_reason(facts, cann),
    )
    if cann == "host":
        yield from install_torch_npu(facts.cann.version if facts.cann else None, torch)
    elif not brings_torch_npu(image):
        yield from install_torch_npu(cann_in_tag(image), torch)
    yield Step(f"python3 -c '{PROOF}'", "must print True and the number of cards")


def set_env(facts: HostFacts, cann: str) -> str:
    """The script as it stands on the host, where that is what is mounted."""
    found = facts.cann.set_env if facts.cann is not None and cann == "host" else None
    return found or SET_ENV


def library_folders(facts: HostFacts, line: str, cann: str) -> Iterator[str]:
    """The folders for LD_LIBRARY_PATH, in order."""
    if cann == "host":
        own = facts.cann.lib_dirs if facts.cann is not None else ()
        yield from [path for path in own if path.endswith("/lib64")] or [
            f"{ASCEND}/ascend-toolkit/latest/lib64"
        ]
    for folder in DRIVER_FOLDERS:
        fact = facts.path(f"{ASCEND}/{folder}")
        if fact is None or fact.exists:
            yield f"{ASCEND}/{folder}"
    if line == "950":
        yield "/usr/lib64"  # where the UB libraries are mounted


def library_reason(facts: HostFacts, cann: str) -> str:
    """Which layout the folders follow."""
    if cann == "image" or facts.cann is None:
        return "the image's ld.so does not know the folders of the driver"
    arch = f", libraries also in {facts.cann.arch_dir}/" if facts.cann.arch_dir else ""
    return f"the folders of CANN {facts.cann.version or '?'} as it lies in {facts.cann.root}{arch}"


def install_torch_npu(cann: str | None, torch: str | None) -> Iterator[Step]:
    """Install the torch_npu that was released for this CANN and the image's torch."""
    fitting = {
        pair.torch: pair.torch_npu
        for pair in reversed(torch_npu_pairs())
        if cann is not None and same_set(pair.cann, cann)
    }
    if torch is not None:
        build = fitting.get(release(torch), release(torch))
        known = f"the row of CANN {cann}" if release(torch) in fitting else "no row for this CANN"
        why = f"torch_npu for torch {torch}: {known}"
        yield Step(pip_install(build), why)
        return
    yield Step(
        "torch=$(python3 -c 'import importlib.metadata as m; "
        'print(m.version("torch").split("+")[0])\')',
        "the torch of the image decides",
    )
    if not fitting:
        which = f"no row for CANN {cann}" if cann else "the version of CANN is not known"
        yield Step(pip_install("$torch"), f"{which}: the build of that name is tried")
        return
    newest_first = sorted(fitting, key=version_key, reverse=True)
    cases = " ".join(f"{name}) npu={fitting[name]};;" for name in newest_first)
    unknown = f'*) npu=none; echo "no torch_npu is known for torch $torch and CANN {cann}" >&2;;'
    yield Step(f"case $torch in {cases} {unknown} esac", f"the rows of CANN {cann}")
    yield Step(pip_install("$npu"), "the torch_npu that was released for both")


def pip_install(build: str) -> str:
    """torch_npu itself needs the other two, and does not say so to pip."""
    return f"python3 -m pip install torch_npu=={build} pyyaml setuptools"
