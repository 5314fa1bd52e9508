"""Reports on disk: `<run id>.report.json` beside the artifacts of the run."""

from __future__ import annotations

import json
from pathlib import Path

from jumar.contracts.errors import InvalidInput, did_you_mean
from jumar.contracts.results import RunReport

SUFFIX = ".report.json"

Found = tuple[Path, RunReport]


def find(which: str, folder: Path) -> list[Found]:
    """The reports that `which` means, oldest first.

    `latest` is the newest in `folder`, a path is a report or all reports of a folder, anything
    else a run id (or its beginning) in `folder`.

    Raises:
        InvalidInput: there is no such report, or it is no report.
    """
    path = Path(which)
    if path.is_dir():
        return [(file, read(file)) for file in _all(path)]
    if path.is_file():
        return [(path, read(path))]
    files = _all(folder) if folder.is_dir() else []
    if not files:
        raise InvalidInput(
            f"There is no report {which!r}: no run has written to {folder}.",
            hint="Name a report file, or its folder with --in.",
            param="which",
        )
    if which == "latest":
        return [(files[-1], read(files[-1]))]
    named = [file for file in files if file.name.startswith(which)]
    if len(named) != 1:
        ids = [file.name.removesuffix(SUFFIX) for file in (named or files)]
        raise InvalidInput(
            f"{len(named) or 'No'} runs in {folder} begin with {which!r}.",
            hint=f"Say more of it: {', '.join(ids)}." if named else did_you_mean(which, ids),
            param="which",
        )
    return [(named[0], read(named[0]))]


def read(path: Path) -> RunReport:
    """Load one report; a whole GenerateResult is taken for its report.

    Raises:
        InvalidInput: the file cannot be read or holds something else.
    """
    try:
        payload = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(payload, dict) and "metadata" in payload:
            payload = payload["metadata"]
        return RunReport.from_dict(payload)
    except OSError as error:
        raise InvalidInput(f"Cannot read the report {path}.", param="which") from error
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"{path} is no run report.",
            hint=f"Reports are files *{SUFFIX} beside the artifacts.",
            param="which",
        ) from error


def _all(folder: Path) -> list[Path]:
    """By time of writing, then by name: two runs may end in the same tick of the clock."""
    return sorted(folder.glob(f"*{SUFFIX}"), key=lambda file: (file.stat().st_mtime_ns, file.name))
