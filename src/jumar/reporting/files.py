"""Reports on disk: `<run id>.report.json` beside the artifacts of the run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from jumar.contracts.errors import InvalidInput, did_you_mean
from jumar.contracts.results import RunReport

SUFFIX = ".report.json"

Found = tuple[Path, RunReport]


def find(which: str, *folders: Path) -> list[Found]:
    """The reports that `which` means, oldest first.

    `latest` is the newest in `folders`, a path is a report or all reports of a folder, anything
    else a run id (or its beginning) in `folders`.

    Raises:
        InvalidInput: there is no such report, or it is no report.
    """
    path = Path(which)
    if path.is_dir():
        return [(file, read(file)) for file in _all([path])]
    if path.is_file():
        return [(path, read(path))]
    files, places = _all(folders), " or ".join("here" if f == Path() else str(f) for f in folders)
    if not files:
        raise InvalidInput(
            f"There is no report {which!r}: no run has written to {places}.",
            hint="Name a report file, or its folder with --in.",
            param="which",
        )
    if which == "latest":
        return [(files[-1], read(files[-1]))]
    named = [file for file in files if file.name.startswith(which)]
    if len(named) != 1:
        ids = [file.name.removesuffix(SUFFIX) for file in (named or files)]
        raise InvalidInput(
            f"{len(named) or 'No'} runs in {places} begin with {which!r}.",
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
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidInput(
            f"{path} is no run report: {field}: {first['msg']}.", param="which"
        ) from None
    except (ValueError, TypeError) as error:
        raise InvalidInput(
            f"{path} is no run report.",
            hint=f"Reports are files *{SUFFIX} beside the artifacts.",
            param="which",
        ) from error


def _all(folders: Iterable[Path]) -> list[Path]:
    """By time of writing, then by name: two runs may end in the same tick of the clock."""
    files = [file for folder in folders for file in folder.glob(f"*{SUFFIX}")]
    return sorted(files, key=lambda file: (file.stat().st_mtime_ns, file.name))
