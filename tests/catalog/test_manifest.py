"""A manifest says everything about a model, and a key means the same for every model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jumar import catalog
from jumar.catalog.build import ManifestError, build
from jumar.catalog.index import Catalog, load_index
from jumar.catalog.manifest import BackendStatus, Manifest, Param, Vocabulary

from .conftest import PAINTER, Folder


def changed(folder: Folder, old: str, new: str) -> str:
    """What is said about the painter with a part of its text exchanged."""
    assert old in PAINTER
    with pytest.raises(ManifestError) as error:
        build(folder(PAINTER.replace(old, new)))
    return str(error.value)


def test_a_key_takes_its_meaning_from_the_vocabulary(painter: Catalog) -> None:
    width = painter.get("painter").tasks["text2image"].config["width"]
    assert (width.type, width.unit, width.step) == ("integer", "px", 8)
    assert (width.default, width.maximum) == (64, 128)


def test_keys_of_all_models_and_of_the_family_come_by_themselves(painter: Catalog) -> None:
    config = painter.get("painter").tasks["text2image"].config
    assert {"output_dir", "model_path", "request_id", "timeout", "preset"} <= config.keys()
    assert {"dtype", "seed"} <= config.keys()


def test_what_stands_at_the_top_is_shared_and_a_task_may_add(painter: Catalog) -> None:
    tasks = painter.get("painter").tasks
    assert list(tasks["text2image"].inputs) == ["prompt", "negative_prompt"]
    assert list(tasks["image2image"].inputs) == ["prompt", "negative_prompt", "image"]
    assert "strength" not in tasks["text2image"].config
    assert tasks["image2image"].config["strength"].default == 0.5


def test_the_first_task_is_the_primary_one(painter: Catalog) -> None:
    assert painter.get("painter").primary_task == "text2image"


def test_a_manifest_survives_being_written_as_plain_data(painter: Catalog) -> None:
    manifest = painter.get("painter")
    assert Manifest.from_dict(manifest.to_dict()) == manifest


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("maximum: 8}", "maximum: 2000}", "num_inference_steps is wider .* ends at 1000"),
        (
            "width: {default: 64",
            "width: {minimum: 8, default: 64",
            "width is wider .* begins at 16",
        ),
        ("width: {default: 64", "width: {type: number, default: 64", "is of type integer there"),
        ("width: {default: 64", "depth: {default: 64", "no config key 'depth'"),
        ("negative_prompt:", "negativ_prompt:", "no input 'negativ_prompt'"),
        ("width: {default: 64", "width: {default: 63", "default of width is 63, no multiple of 8"),
        ("width: {default: 64", "width: {deflaut: 64", "deflaut"),
        ("family: diffusion", "family: diffusion\n    colour: red", "colour: Unexpected"),
        ("tier: core", "tier: best", "tier: Input should be 'core'"),
        ("text2image:", "text2picture:", "unknown task 'text2picture'.*text2image"),
        ("guidance_scale: 1.5", "guidance_scal: 1.5", "preset fast: the model has no config key"),
        ("guidance_scale: 1.5", "width: 256", "preset fast: width is 256, above 128"),
        ("licence: MIT", "licence: MIT\n    licence: BSD", "licence stands twice"),
        ("adapters: [lora]", "weights: {model: {source: ftp://x}}", "'ftp://x' is no source"),
        (
            "adapters: [lora]",
            "weights: {model: {source: hf://a/b, files: {x: 12}}}",
            "files.x: Input should be a valid string",
        ),
        (
            "adapters: [lora]",
            "weights: {model: {source: hf://a/b, files: {x: abc}}}",
            "digest of x is no sha256",
        ),
        (
            "adapters: [lora]",
            "backends: {npu: {status: validated}}",
            "'validated' needs the file of its evidence",
        ),
        ("aliases: [brush]", "aliases: [painter]", "'painter' names both painter and painter"),
        ("id: painter", "id: Painter", "other signs than a-z"),
        ("summary: Draws.", "", "summary"),
    ],
)
def test_a_mistake_stops_the_build_and_is_named(
    folder: Folder, old: str, new: str, said: str
) -> None:
    message = changed(folder, old, new)
    assert re.search(said, message), message
    assert "painter" in message.casefold()


def test_a_file_is_named_after_its_model(folder: Folder) -> None:
    place = folder(PAINTER)
    (place / "manifests" / "painter.yaml").rename(place / "manifests" / "other.yaml")
    with pytest.raises(ManifestError, match=r"other\.yaml: its id is 'painter'"):
        build(place)


def test_a_required_key_has_no_default() -> None:
    with pytest.raises(ValueError, match="no default"):
        Param(type="text", help="", required=True, default="x")


def test_a_status_that_claims_something_names_its_evidence() -> None:
    assert BackendStatus("wired").evidence is None
    with pytest.raises(ValueError, match="evidence"):
        BackendStatus("emulated")


def test_no_name_is_both_an_input_and_a_config_key() -> None:
    text: dict[str, Any] = {"x": {"type": "text", "help": ""}}
    with pytest.raises(ValueError, match="both an input and a config key: x"):
        Vocabulary.from_dict({"inputs": text, "config": text, "universal": []})


def test_every_key_of_the_vocabulary_is_used_by_some_model() -> None:
    vocabulary = Vocabulary.from_dict(load_index()["vocabulary"])
    specs = [spec for row in catalog.rows() for spec in catalog.get(row.id).tasks.values()]
    used = {key for spec in specs for key in (*spec.inputs, *spec.config)}
    unused = {*vocabulary.inputs, *vocabulary.config} - used
    others = {"query", "text_pairs", *vocabulary.families["classifier"]}  # of models in folders
    assert unused <= {"reference_text", "voice", *others}, "keys of models that are still to come"


@pytest.mark.parametrize("row", catalog.rows(), ids=lambda row: row.id)
def test_no_model_claims_more_than_a_file_here_shows(row: catalog.ModelRow) -> None:
    root = Path(__file__).parents[2]
    for known in catalog.get(row.id).backends.values():
        assert known.evidence is None or (root / known.evidence).is_file()


def test_every_embedded_file_is_named_with_its_digest() -> None:
    for row in catalog.rows("core"):
        for weights in catalog.get(row.id).weights.values():
            assert weights.files or weights.source.startswith("package:jumar#")


def test_nothing_is_called_validated_on_an_npu_that_has_run_on_none() -> None:
    for row in catalog.rows():
        assert row.backends.get("npu") != "validated", row.id
