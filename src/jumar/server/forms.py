"""A form: its fields, and its files in the inbox."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.datastructures import UploadFile
from starlette.requests import Request

from jumar.contracts.errors import InvalidInput, InvalidRequest
from jumar.server.desk import Desk

_FILES, _FIELDS = 16, 64


@asynccontextmanager
async def form_of(
    request: Request, files: Mapping[str, str] | None = None, lists: Collection[str] = ()
) -> AsyncIterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Fields and inputs of a form; `files` maps its files to inputs. Without it, each file is the
    input of its name, and several of one name are a list.

    Names may end in `[]`. A field among `lists` is a list, an input there a list where there are
    several; any other stands once. Where the block fails, the uploads are gone.

    Raises:
        InvalidRequest: it is no form, a field stands twice, a file has an unknown name or is text,
            or a text has half a character (a form may name the encoding of its texts).
    """
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InvalidRequest("This route takes a form.", hint="Content-Type: multipart/form-data")
    desk: Desk = request.app.state.desk
    fields: dict[str, list[str]] = defaultdict(list)
    uploads: dict[str, list[str]] = defaultdict(list)
    try:
        async with request.form(max_files=_FILES, max_fields=_FIELDS) as form:
            for name, value in form.multi_items():
                name = name.removesuffix("[]")
                _whole(name, value)
                if not isinstance(value, UploadFile):
                    if files is not None and name in files:
                        raise InvalidRequest(
                            f"{name} is a file, and came as text.",
                            hint=f"With curl: -F {name}=@FILE",
                            param=name,
                        )
                    fields[name].append(value)
                elif files is None or name in files:
                    put = desk.inbox.put(await value.read(), Path(value.filename or "").suffix)
                    uploads[name if files is None else files[name]].append(put)
                else:
                    raise InvalidRequest(f"There is no file {name[:100]!r}.", param=name[:100])
        many = uploads if files is None else lists
        sent = {inside: outside for outside, inside in (files or {}).items()}
        several = {name for name, found in uploads.items() if name in many and len(found) > 1}
        yield (
            {name: _one(name, found, name in lists) for name, found in fields.items()},
            {
                name: _one(sent.get(name, name), found, name in several)
                for name, found in uploads.items()
            },
        )
    except BaseException:
        desk.inbox.discard(uploads)
        raise


def needed(inputs: Mapping[str, Any], name: str, param: str) -> None:
    """Raise InvalidInput where a file is missing."""
    if name not in inputs:
        raise InvalidInput(f"The form has no file {param!r}.", param=param)


def _whole(*texts: str | UploadFile) -> None:
    try:
        for text in texts:
            str(text).encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest("The form has half a character (a lone surrogate).") from error


def _one(name: str, found: list[str], listed: bool) -> Any:
    if listed:
        return found
    if len(found) > 1:
        raise InvalidRequest(f"{name[:100]} stands {len(found)} times.", param=name[:100])
    return found[0]
