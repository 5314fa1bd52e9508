"""`jumar models`, and what stands under it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell

from jumar import catalog
from jumar.runtime.weights import Progress


def test_the_list_has_a_line_per_model(run: Shell) -> None:
    lines = run("models").out.splitlines()
    assert lines[0].split() == ["MODEL", "TASKS", "TIER", "CPU", "CUDA", "NPU", "SUMMARY"]
    assert [line.split()[0] for line in lines[1:]] == [row.id for row in catalog.rows()]


def test_columns_stand_below_each_other(run: Shell) -> None:
    header, *lines = run("models").out.splitlines()
    for title in ("TASKS", "TIER", "CPU", "SUMMARY"):
        place = header.index(title)
        assert all(line[place - 1] == " " and line[place] != " " for line in lines), title


def test_the_list_can_be_narrowed_by_tier_and_task(run: Shell) -> None:
    rows = run("models", "--tier", "core", "--task", "text2audio", "--json").json
    assert [row["id"] for row in rows] == ["hibari"]
    assert run("models", "--tier", "core", "--task", "text2video").out == ""
    assert run.err == "No model fits.\n"


def test_a_model_shows_its_keys_sources_licence_and_status(run: Shell) -> None:
    out = run("models", "hibari").out
    for said in ("Apache-2.0", "wheel:hibari-tts==0.2.1#", "prompt TEXT", "[0.5 to 2; default 1]"):
        assert said in out
    assert "on cpu" in out


def test_an_alias_names_its_model(run: Shell) -> None:
    assert run("models", "minilm").out.startswith("all-minilm-l6-v2\n")


def test_the_manifest_is_whole(run: Shell) -> None:
    assert run("models", "hibari", "--manifest").json == catalog.get("hibari").to_dict()
    assert len(run("models", "--manifest", "--tier", "core").json) == len(catalog.rows("core"))


def test_markdown_is_a_table(run: Shell) -> None:
    lines = run("models", "--format", "markdown").out.splitlines()
    assert len({line.count(" | ") for line in lines[2:]}) == 1
    assert lines[1] == "|---|---|---|---|---|---|---|"


def test_an_unknown_model_names_the_nearest(run: Shell) -> None:
    assert run("models", "sdxl-digit").code == 2
    assert run.err.startswith("error[model_not_found]: Unknown model 'sdxl-digit'.\nhint: Did you")


def test_where_says_what_is_missing_without_fetching(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_CACHE", str(tmp_path / "cache"))
    (model, vad) = run("models", "where", "whisper-tiny.en", "--json").json
    assert (model["name"], vad["name"]) == ("model", "vad")
    assert model["complete"] is False
    assert not (tmp_path / "cache").exists()


def test_a_task_that_no_model_does_names_the_nearest(run: Shell) -> None:
    assert run("models", "--task", "text2audi").code == 2
    assert run.err.startswith("error[invalid_value]: No model does 'text2audi'.")
    assert "'text2audio'" in run.err


class TestPull:
    @pytest.fixture(autouse=True)
    def fetched(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
        """A fetch that brings one file, in three steps."""
        seen: dict[str, Any] = {}

        def ensure_all(
            manifest: Any, *, converters: Any, verify: bool, progress: Any,
            cancel: threading.Event,
        ) -> dict[str, Path]:  # fmt: skip
            seen.update(model=manifest.id, verify=verify)
            for done in (1, 2, 3):
                progress(Progress("model.bin", done, 3))
            return {"model": Path("/cache/model.bin")}

        monkeypatch.setattr("jumar.runtime.weights.ensure_all", ensure_all)
        return seen

    def test_it_prints_where_the_weights_are(self, run: Shell) -> None:
        assert run("models", "pull", "toy").code == 0
        assert run.out == "/cache/model.bin\n"

    def test_json_names_each_set(self, run: Shell) -> None:
        assert run("models", "pull", "toy", "--json").json == {"model": "/cache/model.bin"}

    def test_an_alias_and_verify_reach_the_fetch(self, run: Shell, fetched: dict[str, Any]) -> None:
        run("models", "pull", "minilm", "--verify")
        assert fetched == {"model": "all-minilm-l6-v2", "verify": True}
