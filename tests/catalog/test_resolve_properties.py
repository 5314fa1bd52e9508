"""What holds for every request to every model that is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar import catalog
from jumar.catalog.manifest import PRESETS, Param
from jumar.catalog.values import accepted
from jumar.contracts import GenerateRequest
from jumar.contracts.errors import InvalidRequest

HERE = str(Path(__file__))
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
TASKS = [(row.id, task) for row in catalog.rows() for task in row.tasks]


def numbers(param: Param) -> st.SearchStrategy[Any]:
    low = 0 if param.minimum is None else param.minimum
    high = 1000 if param.maximum is None else param.maximum
    if param.type == "number":
        return st.floats(low, high)
    step = int(param.step or 1)
    return st.integers(0, (int(high) - int(low)) // step).map(lambda k: int(low) + k * step)


def words(param: Param) -> st.SearchStrategy[str]:
    letters = st.characters(exclude_categories=["Cs"])
    longest = min(20, int(param.maximum or 20))
    return st.text(letters, min_size=1, max_size=longest).filter(str.strip)


VALID = {
    "integer": numbers,
    "number": numbers,
    "boolean": lambda param: st.booleans(),
    "choice": lambda param: st.sampled_from(param.choices),
    "text": words,
    "texts": lambda param: words(param) | st.lists(words(param), min_size=1, max_size=3),
    "path": lambda param: words(param).filter(lambda text: "\0" not in text),
    "object": lambda param: st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    "image": lambda param: st.just(HERE),
    "audio": lambda param: st.just(HERE),
}


@st.composite
def requests(draw: st.DrawFn, preset: st.SearchStrategy[str | None]) -> GenerateRequest:
    """A valid request: all required inputs, some of the others, some config."""
    model, task = draw(st.sampled_from(TASKS))
    spec = catalog.get(model).tasks[task]
    inputs = {
        key: draw(VALID[param.type](param))
        for key, param in spec.inputs.items()
        if param.required or draw(st.booleans())
    }
    keys = draw(st.sets(st.sampled_from(sorted(spec.config)), max_size=5)) - {"preset"}
    config = {key: draw(VALID[spec.config[key].type](spec.config[key])) for key in sorted(keys)}
    chosen = draw(preset)
    if chosen is not None:
        config["preset"] = chosen
    return GenerateRequest(task=task, model=model, inputs=inputs, config=config)


ANY_PRESET = st.none() | st.sampled_from(PRESETS)


@given(requests(ANY_PRESET))
@unhurried
def test_resolving_twice_gives_the_same(request: GenerateRequest) -> None:
    first, second = catalog.resolve(request), catalog.resolve(request)
    assert first == second
    assert first.cache_key() == second.cache_key()


@given(requests(st.sampled_from(PRESETS)))
@unhurried
def test_a_preset_never_adds_a_key(request: GenerateRequest) -> None:
    plain = request.model_copy(
        update={"config": {k: v for k, v in request.config.items() if k != "preset"}}
    )
    assert catalog.resolve(request).config.keys() == catalog.resolve(plain).config.keys()


@given(requests(ANY_PRESET))
@unhurried
def test_every_resolved_value_is_one_that_its_key_may_have(request: GenerateRequest) -> None:
    resolved = catalog.resolve(request)
    for part, values, params in (
        ("inputs", resolved.inputs, resolved.spec.inputs),
        ("config", resolved.config, resolved.spec.config),
    ):
        for key, value in values.items():
            assert value is None or accepted(params[key], value, f"{part}.{key}") == value


@given(requests(ANY_PRESET))
@unhurried
def test_the_caller_always_wins(request: GenerateRequest) -> None:
    resolved = catalog.resolve(request)
    for key, value in request.config.items():
        assert resolved.config[key] == value
        assert resolved.origins[key] == "caller"


@given(requests(ANY_PRESET))
@unhurried
def test_a_request_that_went_through_json_resolves_equally(request: GenerateRequest) -> None:
    sent = json.loads(json.dumps(request.model_dump()))
    assert catalog.resolve(GenerateRequest.from_dict(sent)) == catalog.resolve(request)


@given(requests(ANY_PRESET))
@unhurried
def test_what_was_resolved_resolves_to_itself(request: GenerateRequest) -> None:
    """The config of a report, sent again, runs the same."""
    resolved = catalog.resolve(request)
    again = request.model_copy(update={"config": resolved.config, "inputs": resolved.inputs})
    assert catalog.resolve(again).config == resolved.config


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=3,
)


@given(st.sampled_from(TASKS), st.data())
@unhurried
def test_nonsense_is_refused_with_a_typed_error_and_never_anything_else(
    which: tuple[str, str], data: st.DataObject
) -> None:
    model, task = which
    spec = catalog.get(model).tasks[task]
    some_input = st.sampled_from(sorted(spec.inputs)) | st.text(max_size=8)
    some_key = st.sampled_from(sorted(spec.config)) | st.text(max_size=8)
    request = GenerateRequest(
        task=task,  # type: ignore[arg-type]
        model=model,
        inputs=data.draw(st.dictionaries(some_input, JUNK, max_size=3)),
        config=data.draw(st.dictionaries(some_key, JUNK, max_size=3)),
    )
    wrong = catalog.issues(request)
    try:
        resolved = catalog.resolve(request)
    except InvalidRequest as error:
        assert wrong
        assert error.message == wrong[0].message
    else:
        assert not wrong
        assert resolved.config.keys() == spec.config.keys()
