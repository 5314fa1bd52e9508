"""Upstreams as the operator of `jumar serve` names them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from click.testing import CliRunner
from tests.support import speech_server as upstream
from tests.support.serving import Process
from tests.support.speech_server import SpeechServer, answering

from jumar.cli.app import jumar


@pytest.fixture
def server(site: Path, tmp_path: Path) -> Iterator[tuple[Process, SpeechServer]]:
    with SpeechServer(upstream.speak) as there:
        line = ["--upstream", f"far={there.url}/v1", "--speech-url", there.url]
        process = Process(site, tmp_path / "data", *line, "--device", "cpu")
        try:
            yield process, there
        finally:
            process.close()


def test_the_command_names_upstreams_and_the_log_says_who_answered(
    server: tuple[Process, SpeechServer],
) -> None:
    process, there = server
    with openai.OpenAI(base_url=f"{process.url}/v1", api_key="none", max_retries=0) as client:
        sound = client.audio.speech.create(model="Any/Voice", voice="x", input="Hello.")
        assert sound.read() == upstream.wav()
        there.says[:] = [answering(200, {"choices": [{"message": {"content": "Hi."}}]})]
        told = client.chat.completions.create(model="far", messages=[])
        assert told.choices[0].message.content == "Hi."
    process.close()
    assert any('"model": "Any/Voice"' in line and there.url in line for line in process.said)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["--upstream", "far"], "NAME=URL"),
        (["--upstream", "far=ftp://a"], "no address of a server"),
        (["--upstream", "hibari=http://a"], "a model of Jumar's own"),
        (["--speech-url", "nowhere"], "no address of a server"),
        (["--upstreams", "missing.yaml"], "Cannot read"),
    ],
)
def test_a_wrong_upstream_is_told_before_anything_starts(
    tmp_path: Path, line: list[str], said: str
) -> None:
    done = CliRunner().invoke(jumar, ["serve", "--data-dir", str(tmp_path), "--port", "0", *line])
    assert done.exit_code == 2
    assert said in done.output
