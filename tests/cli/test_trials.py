"""A model under the lab: what is asked of it where nobody says."""

from __future__ import annotations

import pytest
from tests.cli.conftest import Shell

from jumar.cli.bisect.model import plain
from jumar.contracts.errors import InvalidRequest
from jumar.contracts.requests import GenerateRequest


def asked(model: str, task: str) -> GenerateRequest:
    return GenerateRequest(task=task, model=model, inputs={}, config={})  # type: ignore[arg-type]


def test_a_request_without_inputs_gets_usual_ones_and_no_graphs() -> None:
    made = plain(asked("all-minilm-l6-v2", "embeddings"))
    assert made.inputs["texts"]
    assert made.config["compile"] == "off"


def test_where_no_request_is_usual_the_command_that_has_the_inputs_is_named() -> None:
    with pytest.raises(InvalidRequest) as refused:
        plain(asked("cogvideox-2b", "text2video"))
    assert refused.value.hint == "Give its inputs: jumar generate --model cogvideox-2b --help"


@pytest.mark.parametrize("command", ["shadow", "bisect"])
def test_the_same_is_said_before_anything_is_loaded(run: Shell, command: str) -> None:
    assert run(command, "-m", "cogvideox-2b", "-d", "cpu").code == 2
    assert "There is no usual request for text2video." in run.err
