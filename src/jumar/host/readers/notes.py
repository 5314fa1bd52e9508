"""What a reader could not see, and what it could not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from jumar.host.facts import Unread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")


class Notes:
    """Collects `HostFacts.unseen` and `HostFacts.unread` while the parts are read."""

    def __init__(self) -> None:
        self.unseen: dict[str, str] = {}
        self.unread: list[Unread] = []

    def look(self, part: str, ask: Callable[..., T], *question: str, absent: T) -> T:
        """The answer to a question, or `absent`.

        What does not exist is a fact and leaves no note; what cannot be looked at leaves one.
        """
        try:
            return ask(*question)
        except (FileNotFoundError, NotADirectoryError):
            return absent
        except OSError as error:
            self.unseen.setdefault(part, _reason(error))
            return absent

    def skip(self, where: str, lines: Iterable[str], why: str = "") -> None:
        """Keep lines that no parser understood."""
        self.unread += [Unread(where=where, line=line, why=why) for line in lines]


def _reason(error: OSError) -> str:
    """A text without "[Errno 13]"; the path of the question is kept."""
    if error.strerror is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
