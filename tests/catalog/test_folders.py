"""A checkpoint in a folder becomes a model by what its config.json says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jumar.catalog.folders import adopt
from jumar.catalog.index import Catalog, load_index
from jumar.contracts.errors import InvalidInput


@pytest.fixture
def catalog() -> Catalog:
    return Catalog(load_index())


def checkpoint(folder: Path, architecture: str | None, **config: Any) -> Path:
    folder.mkdir(parents=True)
    named = {} if architecture is None else {"architectures": [architecture]}
    (folder / "config.json").write_text(json.dumps({**named, **config}))
    return folder


@pytest.mark.parametrize(
    ("architecture", "labels", "family", "tasks"),
    [
        ("BertForSequenceClassification", "L0 L1 L2", "classifier", "classification"),
        ("ModernBertForSequenceClassification", "L0", "classifier", "reranking"),
        ("BertForTokenClassification", "O PER", "decision", "classification decisions"),
        ("BertModel", "L0 L1", "encoder", "embeddings"),
        (
            "BertForSequenceClassification", "neutral Entailment CONTRADICTION",
            "decision", "decisions entailment classification",
        ),
        (
            "ModernBertForSequenceClassification", "entailment not_entailment",
            "decision", "decisions entailment classification",
        ),
        ("BertForSequenceClassification", "entailment neutral", "classifier", "classification"),
    ],
)  # fmt: skip
def test_architecture_and_labels_decide_family_and_tasks(
    architecture: str, labels: str, family: str, tasks: str, tmp_path: Path, catalog: Catalog
) -> None:
    id2label = {str(at): label for at, label in enumerate(labels.split())}
    manifest = adopt(checkpoint(tmp_path / "My Model", architecture, id2label=id2label), catalog)
    assert (manifest.id, manifest.family) == ("my-model", family)
    assert list(manifest.tasks) == tasks.split()
    assert catalog.get("My Model") is catalog.get("my-model")


def test_a_head_that_gives_each_label_its_own_number_compares_no_sentences(
    tmp_path: Path, catalog: Catalog
) -> None:
    folder = checkpoint(
        tmp_path / "a",
        "BertForSequenceClassification",
        id2label={"0": "entailment", "1": "contradiction"},
        problem_type="multi_label_classification",
    )
    assert list(adopt(folder, catalog).tasks) == ["classification"]


def test_adopted_twice_it_is_the_same(tmp_path: Path, catalog: Catalog) -> None:
    folder = checkpoint(tmp_path / "a", "BertModel")
    assert adopt(folder, catalog) is adopt(folder, catalog)


def test_a_name_that_is_taken_is_refused(tmp_path: Path, catalog: Catalog) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be called 'hibari'.*already the name"):
        adopt(checkpoint(tmp_path / "hibari", "BertModel"), catalog)


@pytest.mark.parametrize("architecture", ["LlamaForCausalLM", None])
def test_what_jumar_cannot_read_with_is_refused(
    architecture: str | None, tmp_path: Path, catalog: Catalog
) -> None:
    with pytest.raises(InvalidInput, match=architecture or "no named architecture"):
        adopt(checkpoint(tmp_path / "a", architecture), catalog)
    with pytest.raises(InvalidInput, match=r"no config\.json"):
        adopt(tmp_path, catalog)


def test_nothing_that_callers_see_says_where_it_lies(tmp_path: Path, catalog: Catalog) -> None:
    adopt(checkpoint(tmp_path / "a", "BertModel"), catalog)
    (row,) = (row for row in catalog.rows() if row.id == "a")
    assert str(tmp_path) not in row.summary
