"""Where a service is, and how long to be patient with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from jumar.contracts.errors import InvalidValue

CONNECT_S = 5.0


@dataclass(frozen=True)
class Service:
    """`url` is the address before `/v1`; `silence_s` the longest time between two signs of life.

    `name` is what messages call it where their readers have no business with its address.
    """

    url: str
    api_key: str | None = field(default=None, repr=False)
    silence_s: float = 300.0
    name: str = ""

    def __str__(self) -> str:
        return self.name or self.url

    @property
    def is_local(self) -> bool:
        """Whether it is this machine by its loopback address, where no proxy is ever meant."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


def address(url: str, *, param: str = "config.server_url") -> str:
    """An address in the form that `Service` wants, `/v1` at its end taken off.

    Raises:
        InvalidValue: no http address, or one with a password, which reports would show.
    """
    try:
        parts = urlsplit(url.strip())
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        known = False
    if not known:
        raise InvalidValue(
            f"{url[:200]!r} is no address of a server.",
            hint="Such as http://127.0.0.1:8091",
            param=param,
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise InvalidValue(
            "The address of a server has no password, query or fragment.",
            hint="A key is given as api_key.",
            param=param,
        )
    return url.strip().rstrip("/").removesuffix("/v1")
