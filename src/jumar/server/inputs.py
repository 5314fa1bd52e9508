"""What callers may name: their own data, and files only where the operator allows a folder.

Uploads and base64 data become files of this server for as long as their request lives.
"""

from __future__ import annotations

import base64
import binascii
import mimetypes
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from jumar.catalog.manifest import Param, TaskSpec
from jumar.contracts.errors import InvalidInput, NotPermitted, OutputFailed
from jumar.contracts.requests import GenerateRequest

_DATA = re.compile(r"data:(?P<mime>[\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,(?P<data>.*)", re.S)
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")
_FILES = ("image", "audio")


class Inbox:
    """A folder of uploads. A name says nothing of the caller; only the suffix is his."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def put(self, data: bytes, suffix: str) -> str:
        """Keep an upload; the path of its file. Raises OutputFailed."""
        known = suffix if _SUFFIX.fullmatch(suffix) else ""
        path = self._folder / f"{uuid4().hex}{known.lower()}"
        try:
            path.write_bytes(data)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise OutputFailed(
                f"The upload cannot be kept: {error.strerror or error}."
            ) from None  # its text has the folder
        return str(path)

    def owns(self, value: Any) -> bool:
        """Whether a value is the path of an upload."""
        return isinstance(value, str) and Path(value).parent == self._folder

    def discard(self, inputs: Mapping[str, Any]) -> None:
        """Take the uploads of a request away."""
        for value in inputs.values():
            for one in value if isinstance(value, list) else [value]:
                if self.owns(one):
                    Path(one).unlink(missing_ok=True)

    def without(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """Inputs as answers show them: where an upload lay is nobody's business."""

        def shown(value: Any) -> Any:
            if isinstance(value, list):
                return [shown(one) for one in value]
            return f"upload{Path(value).suffix}" if self.owns(value) else value

        return {key: shown(value) for key, value in inputs.items()}

    def without_paths(self, text: str) -> str:
        """An error's text in which an upload is called so."""
        return re.sub(re.escape(f"{self._folder}/") + r"[0-9a-f]{32}", "upload", text)


class _Sent(NamedTuple):
    """A file that stood in the request itself."""

    data: bytes
    suffix: str


class Screen:
    """Refuses what is the operator's, and turns callers' data into files."""

    def __init__(self, inbox: Inbox, roots: Iterable[Path]) -> None:
        self._inbox = inbox
        self._roots = [root.resolve() for root in roots]

    def screened(self, request: GenerateRequest, spec: TaskSpec) -> GenerateRequest:
        """The request with its files on this machine.

        Raises:
            NotPermitted: a key of the operator, an address, or a file outside the allowed folders.
            InvalidInput: base64 that is none.
        """
        for key in {**request.inputs, **request.config}:
            if key in spec.config and spec.config[key].operator:
                raise NotPermitted(
                    f"{key} is for whoever runs the server to set.", param=f"config.{key}"
                )
        for place, adapter in enumerate(request.adapters or ()):
            self._allowed(adapter.path, f"adapters.{place}.path")
        read = {
            key: self._read(spec.inputs.get(key), value, f"inputs.{key}")
            for key, value in request.inputs.items()
        }
        inputs = {key: self._kept(value) for key, value in read.items()}  # all of it was right
        if inputs == request.inputs:
            return request
        return request.model_copy(update={"inputs": inputs})

    def _kept(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._kept(one) for one in value]
        return self._inbox.put(*value) if isinstance(value, _Sent) else value

    def _read(self, param: Param | None, value: Any, where: str) -> Any:
        if param is None or param.type not in _FILES:
            return value
        if isinstance(value, list):
            return [self._file(one, f"{where}.{place}") for place, one in enumerate(value)]
        return self._file(value, where)

    def _file(self, value: Any, where: str) -> Any:
        if not isinstance(value, str) or self._inbox.owns(value):
            return value  # a wrong type is for the catalog to refuse
        if not value.startswith("data:"):
            return self._allowed(value, where)
        found = _DATA.fullmatch(value)
        if found is None:
            raise InvalidInput(f"{where} is no base64 data.", hint=_HINT, param=where)
        try:
            data = base64.b64decode(found["data"], validate=True)
        except binascii.Error as error:
            raise InvalidInput(f"{where} is no base64 data: {error}.", param=where) from error
        return _Sent(data, mimetypes.guess_extension(found["mime"] or "") or "")

    def _allowed(self, value: str, where: str) -> str:
        """A path under an allowed folder, links followed. Nothing is said of any other."""
        if "://" not in value and "\0" not in value:
            path = Path(value).resolve()
            if any(path.is_relative_to(root) for root in self._roots):
                return str(path)
        raise NotPermitted(
            f"{where} names a file or an address of the server's.", hint=_HINT, param=where
        )


_HINT = "Send the content: data:image/png;base64,… or a multipart upload."
