"""Snapshots of ModelScope, through its public HTTP interface.

    GET <endpoint>/api/v1/models/<owner>/<repo>/repo/files?Revision=…&Recursive=True
        {"Code": 200, "Data": {"Files": [{"Path", "Type": "blob" | "tree", "Size", "Sha256"}]}}
    GET <endpoint>/api/v1/models/<owner>/<repo>/repo?Revision=…&FilePath=…

These are the calls of its own client (github.com/modelscope/modelscope_hub, `_legacy_api.py`),
as are the variables MODELSCOPE_ENDPOINT, MODELSCOPE_DOMAIN and MODELSCOPE_API_TOKEN; the token
goes in a header and in a cookie, because some of its servers read the one, some the other.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job
from jumar.runtime.weights.hub import TIMEOUT_S, Hub, Listed, bring, parse, told

if TYPE_CHECKING:
    import httpx

HUB = Hub(
    name="ModelScope",
    scheme="modelscope://",
    endpoint_switch="MODELSCOPE_ENDPOINT",
    token_switch="MODELSCOPE_API_TOKEN",
    elsewhere="many repositories are on hf:// too.",
)
ENDPOINT = "https://modelscope.cn"
REVISION = "master"


class ModelScope:
    """`modelscope://owner/repo@revision`; without a revision, the branch `master`."""

    offline_switches: tuple[str, ...] = ("JUMAR_OFFLINE",)

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        self.text = weights.source
        self._repo, revision = parse(weights.source, locator)
        self._revision = revision or REVISION
        self._weights = weights
        self._endpoint = _endpoint()

    def here(self, *, offline: bool) -> Path | None:
        """Nowhere but in the cache of Jumar."""
        return None

    def fetch(self, into: Path, job: Job) -> Fetched:
        """List the revision, then bring its files."""
        with told(HUB, self.text, self._endpoint), self._client() as client:
            return bring(client, self._weights, self._list(client), into, job)

    def _list(self, client: httpx.Client) -> dict[str, Listed]:
        answer = client.get("repo/files", params={"Revision": self._revision, "Recursive": "True"})
        answer.raise_for_status()
        try:
            rows = [row for row in answer.json()["Data"]["Files"] if row["Type"] == "blob"]
            return {
                row["Path"]: Listed(self._url(row["Path"]), row["Size"], row.get("Sha256"))
                for row in rows
            }
        except (ValueError, KeyError, TypeError) as error:
            raise WeightsUnavailable(
                f"{self._endpoint} does not answer as ModelScope does.",
                hint=f"Check {HUB.endpoint_switch}; a login page of a network answers so too.",
            ) from error

    def _url(self, path: str) -> str:
        query = urlencode({"Revision": self._revision, "FilePath": path})
        return f"{self._endpoint}/api/v1/models/{self._repo}/repo?{query}"

    def _client(self) -> httpx.Client:
        import httpx

        cookies, headers = httpx.Cookies(), {}
        if token := os.environ.get(HUB.token_switch):
            headers["Authorization"] = f"Bearer {token}"
            cookies.set("m_session_id", token, domain=urlsplit(self._endpoint).hostname or "")
        return httpx.Client(
            base_url=f"{self._endpoint}/api/v1/models/{self._repo}/",
            headers=headers,
            cookies=cookies,
            follow_redirects=True,
            timeout=TIMEOUT_S,
        )


def _endpoint() -> str:
    named = os.environ.get(HUB.endpoint_switch) or os.environ.get("MODELSCOPE_DOMAIN") or ENDPOINT
    return (named if "://" in named else f"https://{named}").rstrip("/")
