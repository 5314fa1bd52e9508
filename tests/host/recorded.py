"""Builds recorded hosts for tests: a folder in the format of docs/host.md, from samples and texts.

    host = make_host(
        tmp_path,
        npu_smi="npu-smi-info__910B3__25.5.1__engine-process.txt",  # a sample, or the text itself
        files={"/etc/ascend_install.info": "etc-ascend_install.info__normal-host.txt"},
        links={"/usr/local/Ascend/ascend-toolkit/latest": "8.2.RC1"},
        nodes=["davinci0", "davinci_manager", "devmm_svm", "hisi_hdc"],
        env={"ASCEND_RT_VISIBLE_DEVICES": "0"},
        packages={"torch": "2.7.1+cpu", "torch-npu": "2.7.1"},
    )
    facts = open_host(host)

What is not given did not exist on that machine, unless `complete=False`: then it is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).parent / "samples"

ROOT: dict[str, Any] = {
    "uid": 0,
    "gid": 0,
    "user": "root",
    "groups": [0],
    "group_names": ["root"],
    "home": "/root",
    "cwd": "/root",
    "cwd_writable": True,
    "kernel": "5.10.0-136.12.0.86.aarch64",
    "arch": "aarch64",
    "glibc": "2.35",
    "locale": "en_US.UTF-8",
    "cpu_count": 192,
    "cpu_usable": 192,
    "python_version": "3.11.10",
    "python_executable": "/usr/local/python3.11.10/bin/python3",
}
"""The process of a test host unless `process=` changes it."""

NODE = {"kind": "char", "mode": "0660", "uid": 1000, "gid": 1000}
NODE_OWNERS = {"owner": "HwHiAiUser", "group": "HwHiAiUser"}


def sample(name: str) -> str:
    """The text of a sample file."""
    return (SAMPLES / name).read_text(encoding="utf-8")


def text_of(content: str) -> str:
    """A sample's text where `content` names one, else `content` itself."""
    known = "\n" not in content and content.endswith(".txt") and (SAMPLES / content).is_file()
    return sample(content) if known else content


def make_host(
    folder: Path,
    *,
    npu_smi: str | None = None,
    commands: Mapping[str, str] | None = None,
    exit_codes: Mapping[str, int] | None = None,
    files: Mapping[str, str] | None = None,
    links: Mapping[str, str] | None = None,
    directories: Iterable[str] = (),
    nodes: Iterable[str] | Mapping[str, Mapping[str, Any]] = (),
    paths: Mapping[str, Any] | None = None,
    env: Mapping[str, str] | str | None = None,
    process: Mapping[str, Any] | None = None,
    packages: Mapping[str, str] | None = None,
    disks: Mapping[str, tuple[int, int]] | None = None,
    holders: Mapping[str, list[dict[str, Any]]] | None = None,
    listeners: list[dict[str, Any]] | None = None,
    failures: Mapping[str, str] | None = None,
    listings: Mapping[str, str] | None = None,
    complete: bool = True,
) -> str:
    """Write a recorded host into a new folder below `folder` and return its path.

    `npu_smi`, the values of `commands`, `files` and `env` are texts or names of samples.
    `commands` is by command line ("npu-smi info -m"), `listings` ("ls -l") by folder, `nodes` by
    name below /dev (a mapping gives other facts than HwHiAiUser's 0660), `failures` by question
    ("run npu-smi info", "list /dev").
    """
    host = folder / f"host{len(list(folder.glob('host*')))}"
    (host / "commands").mkdir(parents=True)
    for line, output in {
        **({"npu-smi info": npu_smi} if npu_smi else {}),
        **(commands or {}),
    }.items():
        (host / "commands" / f"{line}.txt").write_text(text_of(output), encoding="utf-8")
    for path, content in (files or {}).items():
        file = host / "files" / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(content), encoding="utf-8")
    for path, listing in (listings or {}).items():
        file = host / "listings" / f"{path.lstrip('/')}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text_of(listing), encoding="utf-8")
    told: dict[str, Any] = {path: {"link": target} for path, target in (links or {}).items()}
    told.update({path: {"kind": "directory"} for path in ["/dev", "/proc", *directories]})
    chosen = nodes if isinstance(nodes, Mapping) else {name: {} for name in nodes}
    told.update({f"/dev/{name}": {**NODE, **NODE_OWNERS, **fact} for name, fact in chosen.items()})
    told.update(paths or {})
    (host / "paths.json").write_text(json.dumps(told), encoding="utf-8")
    environ = "".join(f"{k}={v}\n" for k, v in env.items()) if isinstance(env, Mapping) else env
    (host / "environ.txt").write_text(text_of(environ or ""), encoding="utf-8")
    installed = {name: [version, "/site-packages"] for name, version in (packages or {}).items()}
    about = {
        "format": 1,
        "complete": complete,
        "process": {**ROOT, "packages": installed, **(process or {})},
        "disks": {"/": (500_000, 200_000), "/dev/shm": (64_000, 64_000), **(disks or {})},
        "holders": holders or {},
        "listeners": listeners or [],
        "failures": failures or {},
        "exit_codes": exit_codes or {},
    }
    (host / "host.json").write_text(json.dumps(about), encoding="utf-8")
    return str(host)
