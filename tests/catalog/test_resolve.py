"""The one function in which a request becomes what will run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jumar import catalog
from jumar.catalog.index import Catalog
from jumar.catalog.manifest import Manifest, Param
from jumar.catalog.resolution import examine, resolve, resolve_load, task_for
from jumar.contracts import GenerateRequest
from jumar.contracts.errors import (
    InvalidInput,
    InvalidRequest,
    InvalidValue,
    UnknownKey,
    UnknownModel,
    UnsupportedTask,
)

HERE = str(Path(__file__))


def drawing(inputs: dict[str, Any] | None = None, **config: Any) -> GenerateRequest:
    given = {"prompt": "a red seven"} if inputs is None else inputs
    return GenerateRequest(task="text2image", model="painter", inputs=given, config=config)


def test_a_request_without_config_runs_with_the_defaults(painter: Catalog) -> None:
    resolved = resolve(drawing(), painter)
    assert resolved.config["num_inference_steps"] == 4
    assert resolved.config["seed"] is None
    assert set(resolved.origins.values()) == {"default"}
    assert resolved.config.keys() == resolved.spec.config.keys() == resolved.origins.keys()


def test_an_alias_is_the_model(painter: Catalog) -> None:
    request = drawing().model_copy(update={"model": "brush"})
    assert resolve(request, painter).manifest.id == "painter"


def test_the_caller_wins_over_every_preset(painter: Catalog) -> None:
    resolved = resolve(drawing(preset="fast", guidance_scale="9"), painter)
    assert resolved.config["guidance_scale"] == 9.0
    assert resolved.origins["guidance_scale"] == "caller"


def test_the_preset_of_the_model_wins_over_that_of_the_task(painter: Catalog) -> None:
    resolved = resolve(drawing(preset="fast"), painter)
    assert (resolved.config["guidance_scale"], resolved.origins["guidance_scale"]) == (
        1.5,
        "model preset fast",
    )
    resolved = resolve(drawing(preset="quality"), painter)
    assert (resolved.config["guidance_scale"], resolved.origins["guidance_scale"]) == (
        8.0,
        "preset quality",
    )


def test_a_preset_out_of_the_models_range_is_left_out_and_told(painter: Catalog) -> None:
    resolved = resolve(drawing(preset="quality"), painter)
    assert resolved.config["num_inference_steps"] == 4
    assert resolved.origins["num_inference_steps"].startswith("default (preset quality asks for 40")


def test_a_preset_never_adds_a_key_that_the_model_does_not_have() -> None:
    request = GenerateRequest(
        task="text2audio", model="hibari", inputs={"prompt": "Hello."}, config={"preset": "fast"}
    )
    resolved = catalog.resolve(request)
    assert "num_inference_steps" not in resolved.config
    assert resolved.config["preset"] == "fast"


def test_none_means_not_given(painter: Catalog) -> None:
    resolved = resolve(drawing({"prompt": "x", "negative_prompt": None}, width=None), painter)
    assert resolved.config["width"] == 64
    assert "negative_prompt" not in resolved.inputs


def test_config_keys_among_the_inputs_are_taken_for_what_they_are(painter: Catalog) -> None:
    """OmniRT's payloads have num_frames and fps there."""
    resolved = resolve(drawing({"prompt": "x", "width": 32}), painter)
    assert (resolved.config["width"], resolved.inputs) == (32, {"prompt": "x"})
    with pytest.raises(InvalidValue, match="width is 32 in inputs and 64 in config"):
        resolve(drawing({"prompt": "x", "width": 32}, width=64), painter)


def test_an_unknown_key_names_the_nearest(painter: Catalog) -> None:
    with pytest.raises(
        UnknownKey, match=r"painter \(text2image\) has no config key 'stpes'"
    ) as error:
        resolve(drawing(stpes=3), painter)
    assert error.value.param == "config.stpes"
    assert "'num_inference_steps'" in (error.value.hint or "")
    with pytest.raises(UnknownKey) as error:
        resolve(drawing({"prompt": "x", "negativ_prompt": "y"}), painter)
    assert error.value.param == "inputs.negativ_prompt"
    assert "'negative_prompt'" in (error.value.hint or "")


@pytest.mark.parametrize("inputs", [{}, {"prompt": None}])
def test_a_required_input_that_is_missing_is_named(
    painter: Catalog, inputs: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=r"inputs\.prompt is missing"):
        resolve(drawing(inputs), painter)


def test_an_unknown_model_names_the_nearest(painter: Catalog) -> None:
    with pytest.raises(UnknownModel) as error:
        resolve(drawing().model_copy(update={"model": "paintr"}), painter)
    assert "'painter'" in (error.value.hint or "")
    assert error.value.param == "model"


def test_a_task_that_the_model_does_not_do_names_what_it_does_and_who_does_it() -> None:
    request = GenerateRequest(task="text2audio", model="sdxl-digits", inputs={"prompt": "x"})
    with pytest.raises(UnsupportedTask, match="text2image, image2image, inpaint") as error:
        catalog.resolve(request)
    assert "hibari" in (error.value.hint or "")


def test_an_unknown_preset_names_the_presets(painter: Catalog) -> None:
    with pytest.raises(InvalidValue) as error:
        resolve(drawing(preset="fats"), painter)
    assert error.value.param == "config.preset"
    assert "'fast'" in (error.value.hint or "")


def test_everything_that_is_wrong_is_found_at_once(painter: Catalog) -> None:
    request = drawing({"prompt": " ", "imge": "x"}, width=33, stpes=3, preset="fats", seed=-1)
    _, wrong = examine(request, painter)
    assert {error.param for error in wrong} == {
        "inputs.prompt",
        "inputs.imge",
        "config.width",
        "config.stpes",
        "config.preset",
        "config.seed",
    }
    with pytest.raises(InvalidRequest) as first:
        resolve(request, painter)
    assert all(error.message in f"{first.value.message} {first.value.hint}" for error in wrong)


@pytest.mark.parametrize(
    ("model", "adapter", "said"),
    [
        ("painter", {"path": " "}, "path of an adapter is empty"),
        ("painter", {"path": "x", "scale": float("inf")}, "not finite"),
        ("hibari", {"path": "x"}, "hibari takes no lora adapters"),
    ],
)
def test_an_adapter_that_does_not_fit_is_refused(
    painter: Catalog, model: str, adapter: dict[str, Any], said: str
) -> None:
    known = painter if model == "painter" else catalog.index.catalog()
    task = "text2image" if model == "painter" else "text2audio"
    request = GenerateRequest.from_dict(
        {
            "task": task,
            "model": model,
            "inputs": {"prompt": "x"},
            "adapters": [{"kind": "lora", **adapter}],
        }
    )
    with pytest.raises(InvalidValue, match=said):
        resolve(request, known)


def test_an_input_may_have_a_default() -> None:
    request = GenerateRequest(task="text2image", model="qwen-image", inputs={"prompt": "x"})
    assert catalog.resolve(request).inputs == {"prompt": "x", "negative_prompt": " "}


def test_what_is_loaded_depends_on_load_time_keys_only(painter: Catalog) -> None:
    plain = resolve(drawing(), painter)
    assert plain.load_config.keys() >= {"dtype", "model_path"}
    assert "seed" not in plain.load_config
    assert (
        plain.cache_key() == resolve(drawing(seed=3, width=32, preset="fast"), painter).cache_key()
    )
    assert plain.cache_key() != resolve(drawing(dtype="fp16"), painter).cache_key()
    again = {"task": "image2image", "inputs": {"prompt": "x", "image": HERE}}
    other = resolve(drawing().model_copy(update=again), painter)
    assert plain.cache_key() == other.cache_key(), "another pipeline around the same weights"
    options = other.manifest.tasks["image2image"].options
    options["components"] = {"safety_checker": None}
    assert plain.cache_key() != other.cache_key(), "a task that loads something else"
    del options["components"]
    lora = GenerateRequest.from_dict(
        {**drawing().model_dump(), "adapters": [{"kind": "lora", "path": "x.safetensors"}]}
    )
    assert plain.cache_key() != resolve(lora, painter).cache_key()


def test_a_secret_is_masked_where_others_see_it(painter: Catalog) -> None:
    resolved = resolve(drawing(request_id="s3cret"), painter)
    manifest = resolved.manifest
    hidden = Param(type="text", help="", secret=True)
    manifest.tasks["text2image"].config["request_id"] = hidden
    assert resolved.config["request_id"] == "s3cret"
    assert resolved.public_config()["request_id"] == "***"
    assert "s3cret" not in json.dumps(resolved.public_config())


def test_a_model_can_be_loaded_before_there_is_a_request(painter: Catalog) -> None:
    manifest = painter.get("painter")
    resolved = resolve_load(manifest, "text2image", "cpu", {"preset": "low-vram"}, painter)
    assert (resolved.config["dtype"], resolved.backend) == ("fp16", "cpu")
    with pytest.raises(UnknownKey, match="guidance_scale"):
        resolve_load(manifest, "text2image", "cpu", {"guidance_scale": 3}, painter)
    with pytest.raises(UnsupportedTask):
        resolve_load(manifest, "edit", "cpu", {}, painter)


@pytest.mark.parametrize(
    ("keys", "task"),
    [
        ({"prompt"}, "text2image"),
        ({"prompt", "width"}, "text2image"),
        ({"prompt", "image"}, "image2image"),
        ({"prompt", "strength", "image"}, "image2image"),
        ({"prompt", "nonsense"}, "text2image"),
    ],
)
def test_the_task_follows_from_what_is_given(painter: Catalog, keys: set[str], task: str) -> None:
    assert task_for(painter.get("painter"), keys, "text2image") == task


def test_the_manifest_is_the_one_of_the_catalog(painter: Catalog) -> None:
    assert isinstance(resolve(drawing(), painter).manifest, Manifest)
    assert resolve(drawing(), painter).manifest is painter.get("painter")
