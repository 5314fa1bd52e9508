"""What the hubs have in common: how a repository is written, how its files are brought, and what
a refusal means.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job, is_inside, keep_only, selected
from jumar.runtime.weights.download import download

if TYPE_CHECKING:
    import httpx

FORM = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[A-Za-z0-9][\w./-]*))?"
)
TIMEOUT_S = 30.0
"""For a connection, and for the next bytes; a whole file may take as long as it takes."""


@dataclass(frozen=True)
class Hub:
    """The words of one hub. `endpoint_switch` and `token_switch` are environment variables."""

    name: str
    scheme: str
    endpoint_switch: str
    token_switch: str
    elsewhere: str


@dataclass(frozen=True)
class Refusal:
    """What an answer means; `{}` fields are those of `Hub`."""

    says: str
    hint: str


@dataclass(frozen=True)
class Listed:
    """One file of a repository; `size` in bytes and `sha256` where the hub states them."""

    url: str
    size: int | None
    sha256: str | None


LOGIN = "Set {token_switch} to a token that may read it; check the spelling of the repository."
LATER = "Try again later, or set {endpoint_switch} to a mirror; {elsewhere}"
NAMES = "Check the spelling of {scheme}owner/repo@revision."
REFUSALS = {
    # The header X-Error-Code of the Hugging Face hub says more than the status.
    "GatedRepo": Refusal(
        "is gated: its owner lets in only those who asked",
        "Ask for access on its page, then set {token_switch} to your token.",
    ),
    "RevisionNotFound": Refusal("has no such revision", "Check what stands behind the @."),
    "401": Refusal("does not exist, or wants a login", LOGIN),
    "403": Refusal("may not be read with this login, or none", LOGIN),
    "404": Refusal("does not exist, or has no such revision", NAMES),
    "407": Refusal("is behind a proxy that wants a login", "Check HTTPS_PROXY."),
    "429": Refusal("was asked for too often from here", LATER),
    "5xx": Refusal("cannot be had now: the hub has a fault", LATER),
    "other": Refusal("was refused", LATER),
}


def parse(text: str, locator: str) -> tuple[str, str | None]:
    """`owner/repo` and the revision, of `owner/repo@revision`.

    Raises:
        InvalidValue: it has another form.
    """
    match = FORM.fullmatch(locator)
    if match is None:
        raise InvalidValue(
            f"{text!r} does not name a repository of a hub.",
            hint="Write owner/repo, or owner/repo@revision.",
            param="source",
        )
    return match["repo"], match["revision"]


def bring(
    client: httpx.Client, weights: Weights, listed: Mapping[str, Listed], into: Path, job: Job
) -> Fetched:
    """Download the listed files that `weights` includes, each from where it stopped.

    Raises:
        WeightsUnavailable: none is included, or a path leads out of `into`.
    """
    names = selected(listed, weights.include)
    if not names:
        raise WeightsUnavailable(
            f"{weights.source} has no file that matches {', '.join(weights.include) or '*'}."
        )
    if outside := [name for name in names if not is_inside(name)]:
        raise WeightsUnavailable(f"{weights.source} lists a path that leads out: {outside[0]!r}.")
    stated, done = [listed[name].size for name in names], 0
    total = None if None in stated else sum(size or 0 for size in stated)
    for name in names:
        file, heard = listed[name], job.counter(f"downloading {name}", done, total)
        download(client, file.url, into / name, file.size, heard)
        done += (into / name).stat().st_size
    keep_only(into, names)
    return Fetched("", {name: digest for name in names if (digest := listed[name].sha256)})


@contextmanager
def told(hub: Hub, source: str, endpoint: str) -> Iterator[None]:
    """Turn what httpx raises into an error that says what it means and what to do."""
    import httpx

    try:
        yield
    except httpx.HTTPStatusError as error:
        answer = error.response
        code = answer.headers.get("X-Error-Code", "")
        raise refused(hub, source, endpoint, answer.status_code, code) from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise unreachable(hub, source, endpoint) from error


def refused(hub: Hub, source: str, endpoint: str, status: int, code: str) -> WeightsUnavailable:
    """The error for an HTTP status, and for a finer `code` where `REFUSALS` has it."""
    known = (row for row in (code, str(status)) if row in REFUSALS)
    refusal = REFUSALS[next(known, "5xx" if status >= 500 else "other")]
    return WeightsUnavailable(
        f"{source} {refusal.says} ({hub.name} at {endpoint} answered {status}).",
        hint=refusal.hint.format(**vars(hub)),
    )


def unreachable(hub: Hub, source: str, endpoint: str) -> WeightsUnavailable:
    """The error for a transfer that never began, or broke off; its cause says why."""
    return WeightsUnavailable(
        f"{source} could not be fetched: no connection to {endpoint}, or it broke off.",
        hint="Run it again, it goes on where it stopped. Behind a proxy set HTTPS_PROXY; for a "
        f"mirror set {hub.endpoint_switch}; {hub.elsewhere} On a machine without a network "
        "bring the cache folder from one that has it.",
    )
