"""Specifications of `jumar vllm serve` before anything is started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from jumar.cli.vllm import serving
from jumar.contracts.errors import InvalidInput, InvalidValue, JumarError, UnknownKey
from jumar.lab.golden.base import Golden
from jumar.lab.golden.files import write

pytest.importorskip("httpx")


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of each server that would have been started, on a CPU."""
    from jumar.vllm import activation
    from jumar.vllm.healing import running

    made: list[Any] = []

    def run(healing: Any, *, host: str, port: int) -> int:
        made.append((healing().options, host, port))
        return 0

    monkeypatch.setattr(serving, "_installed", lambda: None)
    monkeypatch.setattr(activation, "current", lambda: activation.Activation("cpu", "so"))
    monkeypatch.setattr(running, "run", run)
    return made


def serve(*arguments: str) -> None:
    command: click.Command = serving.serve
    command.main([*arguments], standalone_mode=False)


def test_options_of_vllms_pass_as_they_are_written(given: list[Any], tmp_path: Path) -> None:
    write(Golden("m", "", "text", (), ()), tmp_path)
    theirs = ("m", "-tp", "2", "-O3", "-dph", "--max-model-len=5", "--api-key", "a", "b")
    serve("--port", "9", *theirs, "--jumar-golden", str(tmp_path), "--jumar-shadow", "3")
    ((options, host, port),) = given
    assert (options.flags, host, port) == (theirs, "127.0.0.1", 9)
    assert (options.golden, options.shadow) == (str(tmp_path), 3)


@pytest.mark.parametrize(
    ("arguments", "error", "because"),
    [
        ((), InvalidValue, "No model is named"),
        (("m", "--jumar-shaddow", "3"), UnknownKey, "Did you mean '--jumar-shadow'"),
        (("m", "--jumar-golden", "/nowhere"), InvalidInput, "is no golden set"),
        (("m", "--uds", "/run/vllm"), InvalidValue, "--uds is not for a server that heals"),
        (("m", "--ssl-keyfile=k"), InvalidValue, "--ssl-keyfile is not for"),
        (("m", "--ssl_certfile", "c"), InvalidValue, "--ssl-certfile is not for"),
        (("m", "--headless"), InvalidValue, "--headless is not for"),
    ],
)
def test_what_would_be_refused_in_every_engine_or_never_found_is_refused_at_once(
    given: list[Any], arguments: tuple[str, ...], error: type[JumarError], because: str
) -> None:
    with pytest.raises(error) as told:
        serve(*arguments)
    assert because in f"{told.value.message} {told.value.hint}"
    assert given == []


def test_a_model_that_is_none_is_named_for_what_it_is_not(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    command: click.Command = serving.golden
    for folder, because in (
        (tmp_path / "nowhere", "There is no folder"),
        (tmp_path, "is no model for transformers"),
    ):
        with pytest.raises(InvalidInput, match=because):
            command.main([str(folder)], standalone_mode=False)
