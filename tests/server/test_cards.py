"""GET /v1/models: what a card says of a model, loaded or not."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.engine.plan import Plan
from jumar.engine.queue import Batching
from jumar.engine.service import Service

MANIFESTS = Path(catalog.__file__).parent / "manifests"


def card(server: Running, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get(f"/v1/models/{name}").json()
    return found


def test_the_digest_is_that_of_all_pinned_files(server: Running) -> None:
    written = yaml.safe_load((MANIFESTS / "all-minilm-l6-v2.yaml").read_text())
    files = sorted(
        f"model/{name}={sha}" for name, sha in written["weights"]["model"]["files"].items()
    )
    wanted = hashlib.sha256("\n".join(files).encode()).hexdigest()
    assert card(server, "all-minilm-l6-v2")["model_sha256"] == wanted


def test_files_that_nobody_pinned_have_no_digest(server: Running, tmp_path: Path) -> None:
    folder = tmp_path / "my-encoder"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architectures": ["BertModel"]}))
    adopted = catalog.adopt(folder)
    assert card(server, adopted.id)["model_sha256"] is None
    assert card(server, "flux-dev")["model_sha256"] is None, "a repository"


def test_nor_has_a_model_whose_files_the_operator_chose(tmp_path: Path) -> None:
    plans = {"all-minilm-l6-v2": Plan({"model_path": str(tmp_path)})}
    with serving(tmp_path, plans=plans) as server:
        assert card(server, "all-minilm-l6-v2")["model_sha256"] is None


def test_a_card_says_how_the_model_is_asked_and_by_which_names(tmp_path: Path) -> None:
    service = Service(queue=7, batching=Batching(3, 100, pictures=2))
    plans = {"hibari": Plan(service=Service(workers=2))}
    aliases = {"embedder": "all-minilm-l6-v2"}
    with serving(tmp_path, service=service, plans=plans, aliases=aliases) as server:
        encoder, voice = card(server, "embedder"), card(server, "hibari")
        drawer = card(server, "sdxl-digits")
    assert {"embedder", "minilm"} <= set(encoder["aliases"])
    assert (encoder["surfaces"], voice["surfaces"]) == (["embeddings"], [])
    assert encoder["licence"] == "Apache-2.0"
    assert encoder["backends"]["cpu"] == "validated"
    assert encoder["backends"]["npu"] == "emulated", "which is no hardware"
    limits = encoder["limits"]
    assert (limits["max_queue"], limits["max_batch_size"], limits["max_batch_tokens"]) == (
        7,
        3,
        100,
    )
    assert drawer["limits"]["max_batch_size"] == 2, "pictures"
    assert voice["limits"]["workers"] == 2, "the file's word, not the server's"


def test_a_tier_narrows_the_list(server: Running) -> None:
    core = server.client.get("/v1/models?tier=core").json()["data"]
    assert {one["tier"] for one in core} == {"core"}
    assert len(core) < len(server.client.get("/v1/models").json()["data"])


def test_a_tier_that_there_is_not_is_refused(server: Running) -> None:
    refused = server.client.get("/v1/models?tier=kore")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "tier")
    assert "core" in refused.json()["error"]["hint"]


@pytest.mark.parametrize("name", ["gpt-4o", "embeder"])
def test_an_unknown_name_is_told_what_is_served_here(tmp_path: Path, name: str) -> None:
    aliases = {"embedder": "toy"}
    with serving(tmp_path, only=["toy"], aliases=aliases) as server:
        hint = server.client.get(f"/v1/models/{name}").json()["error"]["hint"]
    assert "embedder" in hint
    assert "flux" not in hint, "it is in the catalog, and not served"
