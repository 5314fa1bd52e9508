"""Where golden sets are: the user's folder first, then what comes with Jumar."""

from __future__ import annotations

import os
from pathlib import Path

from jumar.lab.golden.files import NAME

SHIPPED = Path(__file__).parents[2] / "goldens"
SPEECH = SHIPPED / "whisper-tiny.en" / "speech.flac"


def users_folder(named: str | Path | None = None) -> Path:
    """`named`, else `JUMAR_GOLDENS`, else `goldens` in the user's data folder."""
    if named is None and not (named := os.environ.get("JUMAR_GOLDENS")):
        from platformdirs import user_data_path

        return user_data_path("jumar") / "goldens"
    return Path(named).expanduser()


def folder_of(model: str, named: str | Path | None = None) -> Path | None:
    """The folder of a model's golden set; None where nobody recorded one."""
    folders = [users_folder(named) / model, SHIPPED / model]
    return next((one for one in folders if (one / NAME).is_file()), None)
