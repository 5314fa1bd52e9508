"""Every diffusion manifest fits the pipeline that it names, as diffusers' own source has it.

The source is read, not imported: no torch, and no class is missing because a package is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from jumar import catalog
from jumar.catalog.manifest import TaskSpec
from jumar.runtime.families.diffusion.keys import ARGUMENTS, OPTIONS, call_arguments

pytestmark = pytest.mark.skipif(find_spec("diffusers") is None, reason="diffusers is not installed")

TASKS = [
    pytest.param(row.id, task, id=f"{row.id}-{task}")
    for row in catalog.rows()
    if row.family == "diffusion"
    for task in row.tasks
]


@dataclass(frozen=True)
class Pipeline:
    """What the source of a pipeline says."""

    source: str
    arguments: dict[str, bool]  # of __call__: whether it has a default
    components: frozenset[str]  # arguments of __init__


@cache
def home() -> Path:
    spec = find_spec("diffusers")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@cache
def classes(folder: str) -> dict[str, Path]:
    """Where each class of a folder of diffusers is defined."""
    return {
        name: file
        for file in sorted((home() / folder).rglob("*.py"))
        for name in re.findall(r"^class (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }


@cache
def pipeline(name: str) -> Pipeline:
    source = classes("pipelines")[name].read_text(encoding="utf-8")
    (definition,) = (
        node
        for node in ast.parse(source).body
        if isinstance(node, ast.ClassDef) and node.name == name
    )
    methods = {node.name: node for node in definition.body if isinstance(node, ast.FunctionDef)}
    return Pipeline(
        source,
        arguments_of(methods["__call__"]),
        frozenset(arguments_of(methods["__init__"])),
    )


def arguments_of(method: ast.FunctionDef) -> dict[str, bool]:
    names = [argument.arg for argument in method.args.args][1:]
    bare = len(names) - len(method.args.defaults)
    return {name: place >= bare for place, name in enumerate(names)}


@pytest.fixture
def spec(model: str, task: str) -> TaskSpec:
    return catalog.get(model).tasks[task]


@pytest.fixture
def named(spec: TaskSpec) -> Pipeline:
    """The pipeline that the manifest names."""
    return pipeline(spec.options["pipeline"])


@pytest.mark.parametrize(("model", "task"), TASKS)
class TestAManifest:
    def test_has_no_option_that_nobody_reads(self, spec: TaskSpec) -> None:
        assert spec.options.keys() <= set(OPTIONS)

    def test_passes_only_arguments_that_the_pipeline_has(
        self, spec: TaskSpec, named: Pipeline
    ) -> None:
        passed = [*call_arguments(spec).values(), *spec.options.get("fixed", {})]
        assert [argument for argument in passed if argument not in named.arguments] == []
        assert len(passed) == len(set(passed)), "two keys for one argument"

    def test_renames_only_keys_that_it_has(self, spec: TaskSpec) -> None:
        assert spec.options.get("call", {}).keys() <= {*spec.inputs, *spec.config, *ARGUMENTS}

    def test_gives_everything_that_the_pipeline_demands(
        self, spec: TaskSpec, named: Pipeline
    ) -> None:
        demanded = {name for name, has_default in named.arguments.items() if not has_default}
        required = {key for key, param in spec.inputs.items() if param.required}
        given = {argument for key, argument in call_arguments(spec).items() if key in required}
        assert demanded - {"kwargs"} <= given

    def test_names_components_and_schedulers_that_exist(
        self, spec: TaskSpec, named: Pipeline
    ) -> None:
        assert spec.options.get("components", {}).keys() <= named.components
        for row in spec.options.get("schedulers", {}).values():
            assert row["class"] in classes("schedulers")

    def test_offers_only_sizes_that_the_pipeline_draws(
        self, spec: TaskSpec, named: Pipeline
    ) -> None:
        grid = max(map(int, re.findall(r"height % (\d+) != 0", named.source)), default=1)
        for side in ("width", "height"):
            if side in spec.config:
                param = spec.config[side]
                assert (param.step or 1) % grid == 0
                assert (param.minimum or 0) % grid == 0

    def test_offers_only_numbers_of_frames_that_are_not_rounded(
        self, spec: TaskSpec, named: Pipeline
    ) -> None:
        if "num_frames % self.vae_scale_factor_temporal != 1" in named.source:
            frames = spec.config["num_frames"]
            assert (frames.minimum, frames.step) == (1, 4)

    def test_cuts_the_prompt_where_the_pipeline_can(self, spec: TaskSpec, named: Pipeline) -> None:
        for most in re.findall(r"max_sequence_length > (\d+):", named.source):
            if "max_sequence_length" in spec.config:
                assert (spec.config["max_sequence_length"].maximum or 9999) <= int(most)

    def test_takes_its_weights_from_one_repository(self, model: str, spec: TaskSpec) -> None:
        weights = catalog.get(model).weights
        assert "model" in weights
        for row in spec.options.get("components", {}).values():
            assert row is None or row.get("weights", "model") in weights


def test_the_check_would_notice_a_wrong_argument() -> None:
    """The positive control: what the pipeline does not have is not in what was read."""
    read = pipeline("StableDiffusionXLPipeline").arguments
    assert {"prompt", "guidance_scale", "generator"} <= read.keys()
    assert "true_cfg_scale" not in read
    assert not arguments_of(ast.parse("def f(self, a, b=1): ...").body[0])["a"]  # type: ignore[arg-type]
