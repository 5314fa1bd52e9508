"""A worker is forked from a process that has what it needs: it imports next to nothing itself."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jumar import catalog
from jumar.contracts.errors import UnknownModel
from jumar.engine import preloading
from jumar.engine.preloading import preloaded
from jumar.isolate import Zygote
from jumar.runtime.weights import Located

ENCODER = "all-minilm-l6-v2"


def weights_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = Located("model", "file", folder, 0, complete=True)
    monkeypatch.setattr(preloading, "where", lambda manifest: [found])


def of_transformers(names: list[str]) -> list[str]:
    return [
        name for name in names if name.startswith("transformers.models.") and "auto" not in name
    ]


@pytest.mark.parametrize(
    ("config", "modules"),
    [
        ('{"model_type": "xlm-roberta"}', ["transformers.models.xlm_roberta.modeling_xlm_roberta"]),
        ('{"model_type": "nobody_knows"}', []),
        ('{"model_type": "../../etc"}', []),
        ("[]", []),
        ("no JSON", []),
    ],
)
def test_what_computes_for_weights_that_are_here_is_imported_before(
    config: str, modules: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(config)
    weights_in(tmp_path, monkeypatch)
    assert of_transformers(preloaded([ENCODER])) == modules


def test_weights_that_are_not_here_yet_cost_nothing_but_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights_in(tmp_path, monkeypatch)
    found = preloaded([ENCODER])
    assert of_transformers(found) == []
    assert "transformers.modeling_utils" in found


def test_what_starts_threads_is_left_to_those_that_need_it() -> None:
    found = preloaded(["hibari", ENCODER])
    assert not {"onnxruntime", "hibari"} & set(found)
    assert "jumar.runtime.families.speech.family" in found


def test_without_models_there_is_only_our_own() -> None:
    assert preloaded([]) == ["jumar.engine.worker"]


def test_a_model_that_is_not_there_is_an_error() -> None:
    with pytest.raises(UnknownModel):
        preloaded(["no-such-model"])


def loading() -> Callable[[Any], list[str]]:
    """In the child: load the encoder, and say what that has imported."""
    from jumar import load

    before = set(sys.modules)
    load(ENCODER, backend="cpu")
    new = sorted(set(sys.modules) - before)
    return lambda _: new


@pytest.mark.models
def test_a_forked_worker_has_what_computes_already() -> None:
    catalog.get(ENCODER)
    with Zygote(preloaded([ENCODER])) as zygote, zygote.spawn(loading) as child:
        new = child.call(None).value
        assert zygote.forks, zygote.reason
    heavy = ("modeling", "modeling_utils", "generation", "torch", "model", "family")
    assert [name for name in new if name.rpartition(".")[2].startswith(heavy)] == []
