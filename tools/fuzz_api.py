"""Requests drawn from the OpenAPI document, right and wrong ones, against a server of real models.

make fuzz-api
python tools/fuzz_api.py --max-examples 200 [any option of `schemathesis run`]
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from pydantic import BaseModel, ValidationError

from jumar.server.routes import ROUTES

MODELS = {
    "/v1/embeddings": "all-minilm-l6-v2",
    "/v1/audio/speech": "hibari",
    "/v1/audio/transcriptions": "whisper-tiny.en",
    "/v1/images/generations": "sdxl-digits",
    "/v1/images/edits": "sdxl-digits",
}
"""Names that are drawn are no model's: these take their place. `/v1/generate` asks each in turn."""

INPUTS = {
    "all-minilm-l6-v2": {"texts": ["a rope", "an anchor"]},
    "hibari": {"prompt": "A rope."},
    "sdxl-digits": {"prompt": "a red seven"},
    "whisper-tiny.en": {"audio": "data:audio/wav;base64,bm8gc291bmQ="},
}

RUN = ("--phases=coverage,fuzzing", "--continue-on-failure", "--request-timeout=300",
       "--warnings=off", "--exclude-checks=positive_data_acceptance")  # fmt: skip
"""A body of the right shape may ask a model for what it has not: refusing that is right."""

_FIELDS = {row.path: (row.takes or row.form) for row in ROUTES if row.method == "POST"}
_asked = 0


@schemathesis.hook
def map_body(context: Any, body: Any) -> Any:
    """Have a model asked that there is, and without a deadline: one that has passed is 504. Every
    second time what no model knows is left out, so that some of it is answered: where the body is
    right, since one that is wrong has to stay so.
    """
    global _asked
    if not isinstance(body, dict) or not isinstance(body.get("model"), str):
        return body
    _asked += 1
    path, every = context.operation.path, list(INPUTS)
    model = MODELS.get(path, every[_asked // 2 % len(every)])
    body = {key: body[key] for key in body if key != "deadline_ms"} | {"model": model}
    contract = _FIELDS.get(path)
    if _asked % 2 and contract is not None and _fits(contract, body):
        body = {key: body[key] for key in body if key in contract.model_fields}
        if path == "/v1/generate":
            body |= {"inputs": INPUTS[model], "config": {}, "task": None, "adapters": None}
            body["backend"] = "auto"
    return body


def _fits(contract: type[BaseModel], body: dict[str, Any]) -> bool:
    """Whether the fields that it knows are right."""
    try:
        contract.model_validate({key: body[key] for key in body if key in contract.model_fields})
    except ValidationError:
        return False
    return True


def main() -> int:
    """Serve, draw, and give schemathesis' exit code."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the server ends with this program
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
    settings = Path(__file__).with_suffix(".toml")
    line = [str(program), "--config-file", str(settings)]
    line += ["run", f"{url}/openapi.json", *RUN, *sys.argv[1:]]
    hooks = {"SCHEMATHESIS_HOOKS": Path(__file__).stem, "PYTHONPATH": str(Path(__file__).parent)}
    return subprocess.run(line, env={**os.environ, **hooks}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
