"""Snapshots of the Hugging Face hub.

Its own client, huggingface_hub, lists the revision and knows the tokens, the mirrors
(`HF_ENDPOINT`) and its cache on this machine. The bytes come through `download`: version 2 of
the client begins a file anew after each failure, and weights are too large for that.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import DependencyMissing, InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job
from jumar.runtime.weights.digests import missing, require
from jumar.runtime.weights.hub import (
    TIMEOUT_S,
    Hub,
    Listed,
    bring,
    parse,
    refused,
    told,
    unreachable,
)

if TYPE_CHECKING:
    import httpx

HUB = Hub(
    name="Hugging Face",
    scheme="hf://",
    endpoint_switch="HF_ENDPOINT",
    token_switch="HF_TOKEN",
    elsewhere="many repositories are on modelscope:// too.",
)
ENDPOINT = "https://huggingface.co"
COMMIT = re.compile("[0-9a-f]{40}")


class HuggingFace:
    """`hf://owner/repo@revision`; without a revision, the branch `main`."""

    offline_switches: tuple[str, ...] = ("JUMAR_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        self.text = weights.source
        self._repo, self._revision = parse(weights.source, locator)
        self._weights = weights
        self._endpoint = os.environ.get(HUB.endpoint_switch, "").rstrip("/") or ENDPOINT

    def here(self, *, offline: bool) -> Path | None:
        """The snapshot in the hub's own cache. Online it is used only where the revision is a
        commit and the manifest lists the files: else nobody knows that it is the one, and whole.
        """
        from importlib.util import find_spec

        pinned = bool(self._weights.files) and COMMIT.fullmatch(self._revision or "") is not None
        if find_spec("huggingface_hub") is None or not (offline or pinned):
            return None
        from huggingface_hub import errors, snapshot_download

        try:
            snapshot = Path(
                snapshot_download(
                    self._repo,
                    revision=self._revision,
                    allow_patterns=list(self._weights.include) or None,
                    local_files_only=True,
                )
            )
        except errors.LocalEntryNotFoundError as error:
            # Newer versions know the whole list of files, and name those that are missing.
            if offline and getattr(error, "snapshot_path", None):
                raise WeightsUnavailable(
                    f"{self.text} is only here in part, and fetching is forbidden. {error}",
                    hint="Bring the whole snapshot, or go online once: 'jumar models pull'.",
                ) from error
            return None
        if offline:
            require(snapshot, self._weights.files, self.text)
        return None if missing(snapshot, self._weights.files) else snapshot

    def fetch(self, into: Path, job: Job) -> Fetched:
        """List the revision, then bring its files."""
        try:
            import huggingface_hub  # noqa: F401
        except ImportError as error:
            raise DependencyMissing(
                f"{self.text} needs huggingface_hub, which is not installed.",
                hint='Install it: pip install "jumar[runtime]", or pip install huggingface_hub.',
            ) from error
        listed = self._list()
        with told(HUB, self.text, self._endpoint), self._client() as client:
            return bring(client, self._weights, listed, into, job)

    def _list(self) -> dict[str, Listed]:
        from huggingface_hub import HfApi, hf_hub_url

        with self._library_told():
            info = HfApi(endpoint=self._endpoint).model_info(
                self._repo, revision=self._revision, files_metadata=True, timeout=TIMEOUT_S
            )
            return {
                file.rfilename: Listed(
                    hf_hub_url(
                        self._repo, file.rfilename, revision=info.sha, endpoint=self._endpoint
                    ),
                    file.size,
                    file.lfs.sha256 if file.lfs is not None else None,
                )
                for file in info.siblings or ()
            }

    def _client(self) -> httpx.Client:
        import httpx
        from huggingface_hub.utils import build_hf_headers

        return httpx.Client(headers=build_hf_headers(), follow_redirects=True, timeout=TIMEOUT_S)

    @contextmanager
    def _library_told(self) -> Iterator[None]:
        from huggingface_hub import errors

        try:
            yield
        except errors.HfHubHTTPError as error:
            answer = error.response
            code = answer.headers.get("X-Error-Code", "")
            raise refused(HUB, self.text, self._endpoint, answer.status_code, code) from error
        except errors.HFValidationError as error:
            raise InvalidValue(f"{self.text!r} names no repository.", param="source") from error
        # Its transport has been requests, httpx and httpx2; `errors.HTTPError` is that one's base.
        except (OSError, errors.HTTPError) as error:
            raise unreachable(HUB, self.text, self._endpoint) from error
