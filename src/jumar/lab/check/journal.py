"""A check's own folder: what has been found so far, so that it can go on where it stopped."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.lab.check.base import Finding, Target


class Journal:
    """Findings of one target and fingerprint, a JSON line each; another fingerprint has its own.

    Raises (all methods):
        InvalidInput: the file holds something else.
        OutputFailed: the folder cannot be written.
    """

    def __init__(self, folder: Path, target: Target, fingerprint: Mapping[str, str]) -> None:
        about = {"target": [target.provider, target.device], "fingerprint": dict(fingerprint)}
        key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:12]
        self.path = folder / f"findings-{key}.jsonl"
        self._about = about
        self._writing = threading.Lock()

    def read(self) -> tuple[list[Finding], set[tuple[str, str]]]:
        """What was found, and which operators and dtypes are done.

        A last line that was cut off when the process was killed is left out.
        """
        findings: list[Finding] = []
        done: set[tuple[str, str]] = set()
        for line in self._lines():
            if "done" in line:
                done.add((line["done"][0], line["done"][1]))
            elif "operator" in line:
                findings.append(Finding.of(line))
        return findings, done

    def add(self, findings: list[Finding], done: tuple[str, str] | None = None) -> None:
        """Write findings, and that an operator and dtype are done with them."""
        lines: list[dict[str, Any]] = [one.as_dict() for one in findings]
        if done is not None:
            lines.append({"done": list(done)})
        try:
            with self._writing:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                fresh = not self.path.exists()
                with self.path.open("a", encoding="utf-8") as file:
                    for line in [self._about, *lines] if fresh else lines:
                        file.write(json.dumps(line, ensure_ascii=False) + "\n")
        except OSError as error:
            raise OutputFailed(f"{self.path} cannot be written: {error.strerror}.") from error

    def _lines(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        try:
            lines = self.path.read_text(encoding="utf-8").split("\n")
            whole = lines[:-1]  # what stands after the last newline was cut off
            return [json.loads(line) for line in whole]
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{self.path} holds no findings: {error}", param="folder") from error
