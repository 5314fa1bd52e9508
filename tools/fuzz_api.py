"""Requests drawn from the OpenAPI document, right and wrong ones, against a server of real models.

make fuzz-api
python tools/fuzz_api.py --max-examples 200 [any option of `schemathesis run`]
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import schemathesis

MODELS = {
    "/v1/embeddings": "all-minilm-l6-v2",
    "/v1/audio/speech": "hibari",
    "/v1/audio/transcriptions": "whisper-tiny.en",
    "/v1/images/generations": "sdxl-digits",
    "/v1/images/edits": "sdxl-digits",
}
"""Names that are drawn are no model's: these take their place. `/v1/generate` asks each in turn."""

RUN = ("--phases=coverage,fuzzing", "--continue-on-failure", "--request-timeout=300",
       "--warnings=off", "--exclude-checks=positive_data_acceptance")  # fmt: skip
"""A body of the right shape may ask a model for what it has not: refusing that is right."""

_asked = 0


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Have a model asked that there is, and without a deadline: one that has passed is 504."""
    global _asked
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return body
    _asked += 1
    every = list(dict.fromkeys(MODELS.values()))
    model = MODELS.get(context.operation.path, every[_asked % len(every)])
    return {**{key: body[key] for key in body if key != "deadline_ms"}, "model": model}


def main() -> int:
    """Serve, draw, and give schemathesis' exit code."""
    with tempfile.TemporaryDirectory() as data:
        line = [sys.executable, "-m", "jumar", "serve", *dict.fromkeys(MODELS.values())]
        line += ["--device", "cpu", "--port", "0", "--data-dir", data]
        log = Path(data, "log")
        with log.open("w") as file:
            server = subprocess.Popen(line, stderr=file)
        try:
            return _drawn(_address(server, log))
        finally:
            server.terminate()
            server.wait()


def _address(server: subprocess.Popen[bytes], log: Path) -> str:
    """Where it listens, once all its models answer or have failed to."""
    while server.poll() is None:
        found = re.search(r"listens on (\S+)", log.read_text())
        if found and httpx.get(f"{found[1]}/readyz").json()["status"] in ("ready", "failed"):
            return found[1]
        time.sleep(1.0)
    raise SystemExit(log.read_text())


def _drawn(url: str) -> int:
    program = Path(sys.executable).with_name("schemathesis")
    line = [str(program), "run", f"{url}/openapi.json", *RUN, *sys.argv[1:]]
    hooks = {"SCHEMATHESIS_HOOKS": Path(__file__).stem, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(line, env={**os.environ, **hooks}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
