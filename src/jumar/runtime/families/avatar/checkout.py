"""The operator's checkout of a model's repository, and what has to lie in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidValue, WeightsUnavailable
from jumar.runtime.families.base import LoadPlan


@dataclass(frozen=True)
class Checkout:
    """`folder` holds `script`; `folders` are those of the config keys, weights above all."""

    folder: Path
    script: Path
    folders: dict[str, Path]
    sourced: Path | None


def find(plan: LoadPlan) -> Checkout:
    """The checkout that `repo_path` names, with all that its script will be told of.

    Raises:
        WeightsUnavailable: none is named, or the script or a folder is missing; how to get it.
        InvalidValue: the shell script to be sourced is missing.
    """
    options = plan.manifest.options
    folder = _repository(plan)
    script = folder / options["script"]
    if not script.is_file():
        raise WeightsUnavailable(
            f"{folder} has no {options['script']}: it is no checkout of {options['repository']}.",
            hint=f"git clone {options['repository']} {folder}",
            param="config.repo_path",
        )
    folders = dict(_folders(plan, folder))
    for key, path in folders.items():
        if not path.is_dir():
            source = options["weights"].get(key)
            raise WeightsUnavailable(
                f"There is no folder {path} ({key}).",
                hint=source and f"hf download {source} --local-dir {path}",
                param=f"config.{key}",
            )
    return Checkout(folder, script, folders, _sourced(plan))


def _repository(plan: LoadPlan) -> Path:
    repository, named = plan.manifest.options["repository"], plan.config["repo_path"]
    if named is None:
        variables = plan.manifest.tasks[plan.task].config["repo_path"].variables
        raise WeightsUnavailable(
            f"{plan.manifest.id} is run from a checkout of its repository, and none is named.",
            hint=f"git clone {repository}, then say --repo-path FOLDER (repo_path) or set"
            f" {' or '.join(variables)}: Jumar runs no code that you did not name.",
            param="config.repo_path",
        )
    folder = Path(named).expanduser().absolute()
    if not folder.is_dir():
        raise WeightsUnavailable(
            f"There is no folder {folder} (repo_path).",
            hint=f"git clone {repository} {folder}",
            param="config.repo_path",
        )
    return folder


def _folders(plan: LoadPlan, repository: Path) -> Iterator[tuple[str, Path]]:
    """The paths that the script is given: from the checkout where they are relative."""
    keys = plan.manifest.tasks[plan.task].config
    given: dict[str, Any] = dict(plan.config)
    for name in plan.manifest.options["arguments"].values():
        if name in keys and keys[name].type == "path" and given.get(name) is not None:
            yield name, repository / Path(given[name]).expanduser()


def _sourced(plan: LoadPlan) -> Path | None:
    keys = ["env_script"]
    if plan.placement.device.kind == "npu":
        keys.insert(0, "ascend_env_script")
    for key in keys:
        if plan.config[key] is not None:
            path = Path(plan.config[key]).expanduser().absolute()
            if not path.is_file():
                raise InvalidValue(f"There is no file {path} ({key}).", param=f"config.{key}")
            return path
    return None
