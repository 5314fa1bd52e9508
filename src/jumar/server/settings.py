"""How a server is run: what its operator decides, and no caller."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, InvalidValue, NotPermitted
from jumar.server.forwarding.upstreams import Upstreams

_SENDABLE = re.compile(r"[!-~]+")
"""What every client can put into a header."""

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Keys:
    """API keys of callers. Only digests are kept, so that no log, dump or report has a key."""

    def __init__(self, keys: list[str]) -> None:
        self._digests = [_digest(key) for key in keys]

    @classmethod
    def read(cls, file: Path) -> Keys:
        """One key a line; empty lines and those that begin with # are skipped.

        Raises:
            InvalidInput: the file cannot be read, has no key, or a line that no caller could send:
                headers carry ASCII. The message names the line, never the key.
        """
        try:
            lines = [line.strip() for line in file.read_text(encoding="utf-8-sig").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"Cannot read the API keys in {file}.") from error
        keys = [line for line in lines if line and not line.startswith("#")]
        if not keys:
            raise InvalidInput(f"There is no API key in {file}.", hint="One key a line.")
        if wrong := [key for key in keys if not _SENDABLE.fullmatch(key)]:
            raise InvalidInput(
                f"Line {lines.index(wrong[0]) + 1} of {file} is no API key.",
                hint="Letters, digits and signs of ASCII, without spaces; one key a line.",
            )
        return cls(keys)

    def admit(self, shown: str) -> bool:
        """Whether a key is one of these; takes as long for a wrong one as for a right one."""
        digest = _digest(shown)
        return sum(hmac.compare_digest(digest, known) for known in self._digests) > 0


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


@dataclass(frozen=True)
class Settings:
    """Args:
    data: Folder for artifacts, uploads and jobs.
    keys: Who may ask; None: everybody who reaches the port.
    aliases: Other names of models.
    max_request_bytes: The largest body.
    allow_roots: Folders of this machine that callers may name files in.
    keep_s: Seconds for which artifacts and finished jobs are kept.
    upstreams: Models that other servers run.
    only_here: Answer only where this machine is asked for by its own name: whoever listens on
        loopback without keys must not serve a page that leads its visitor's browser there.
    page: Whether there is a page at `/`.
    otlp: Where traces are sent; None: where OpenTelemetry's variables say, else nowhere.
    """

    data: Path
    keys: Keys | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    max_request_bytes: int = 8 << 20
    allow_roots: tuple[Path, ...] = ()
    keep_s: float = 86_400.0
    upstreams: Upstreams = field(default_factory=Upstreams)
    only_here: bool = False
    page: bool = True
    otlp: str | None = None


def read_aliases(file: Path) -> dict[str, str]:
    """Aliases from a YAML or JSON file: a mapping from a name to a model.

    Raises:
        InvalidInput: the file cannot be read, or holds anything else.
        UnknownModel: an alias stands for no model.
    """
    import yaml

    from jumar import catalog

    try:
        found: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidInput(f"Cannot read the aliases in {file}.") from error
    found = found.get("aliases", found) if isinstance(found, dict) else found
    if not isinstance(found, dict) or not all(
        isinstance(part, str) for pair in found.items() for part in pair
    ):
        raise InvalidInput(f"{file} is no list of aliases.", hint="One a line: name: model")
    return {alias: catalog.get(model).id for alias, model in found.items()}


def refuse_open_door(host: str, keys: Keys | None, *, no_auth: bool) -> None:
    """Refuse to listen to other machines without keys.

    Raises:
        NotPermitted: unless the operator says that nobody is to be asked for a key.
        InvalidValue: both keys and none are asked for.
    """
    if keys is not None and no_auth:
        raise InvalidValue("--api-key-file asks for keys, --no-auth for none.", param="no-auth")
    if keys is None and not no_auth and host not in LOOPBACK:
        raise NotPermitted(
            f"On {host} every machine that reaches it could run models.",
            hint="Name keys with --api-key-file, or say --no-auth.",
            param="host",
        )
