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


def test_aliases_can_be_left_out(server: Running) -> None:
    plain = server.client.get("/v1/models?include_aliases=false").json()["data"]
    assert all("aliases" not in one for one in plain)
    for word in ("true", "True"):
        asked = server.client.get(f"/v1/models?include_aliases={word}").json()["data"]
        assert all("aliases" in one for one in asked)


@pytest.mark.parametrize(
    ("asked", "param", "hint"),
    [
        ("models?teir=core", "teir", "'tier'"),
        ("models?include_aliases=7", "include_aliases", None),
        ("jobs?status=failed", "status", "'state'"),
        ("videos?offset=3", "offset", None),
    ],
)
def test_what_a_list_cannot_be_narrowed_by_is_refused_and_not_left_out(
    server: Running, asked: str, param: str, hint: str | None
) -> None:
    refused = server.client.get(f"/v1/{asked}")
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, param)
    assert hint is None or hint in error["hint"]


def test_who_asks_a_model_for_what_it_does_not_hears_of_models_that_are_served(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, only=["toy", "sdxl-digits"]) as server:
        picture = {"model": "toy", "prompt": "a seven"}
        hint = server.client.post("/v1/images/generations", json=picture).json()["error"]["hint"]
        assert hint == "Models for text2image: sdxl-digits."
        for route, body in {
            "embeddings": {"input": "a"},
            "generate": {"task": "embeddings", "inputs": {"texts": ["a"]}},
            "decisions": {"state": "a", "questions": {"q": {"type": "noul", "criteria": "b"}}},
        }.items():
            refused = server.client.post(f"/v1/{route}", json={"model": "toy", **body})
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (422, "unsupported_surface"), error
            assert error["hint"].startswith("No model here does")
        chat = server.client.post("/v1/chat/completions", json={"model": "toy", "messages": []})
        assert "--" not in chat.json()["error"]["hint"], "that is the operator's business"
    with serving(tmp_path / "all") as server:
        hint = server.client.post("/v1/images/generations", json=picture).json()["error"]["hint"]
        assert "flux-dev" in hint, "everything is served there"


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
