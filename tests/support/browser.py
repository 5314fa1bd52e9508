"""A headless Chromium that tests drive over its own protocol (DevTools), without a driver."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from websockets.sync.client import ClientConnection, connect

from tests.support.serving import PATIENT

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
    "--disable-background-networking", "--disable-extensions", "--disable-component-update",
    "--remote-debugging-port=0", "--lang=en-GB", "--autoplay-policy=no-user-gesture-required",
)  # fmt: skip


class Tab:
    """One tab. `asked` has the address of every request, `complaints` what the console said:
    errors of scripts, and everything that a policy forbade.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.asked: list[str] = []
        self.complaints: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command and its result."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(PATIENT))
            if message.get("id") == self._number:
                assert "error" not in message, f"{method}: {message['error']}"
                result: dict[str, Any] = message["result"]
                return result
            self._hear(message["method"], message["params"])

    def _hear(self, kind: str, said: dict[str, Any]) -> None:
        if kind == "Network.requestWillBeSent":
            self.asked.append(said["request"]["url"])
        elif kind == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))
        elif kind == "Log.entryAdded" and said["entry"]["source"] != "network":
            self.complaints.append(said["entry"]["text"])

    def open(self, url: str) -> None:
        """Go there."""
        self.send("Page.navigate", url=url)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        found = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def until(self, script: str, seconds: float = PATIENT) -> Any:
        """Wait until an expression is true, and give its value; true for a node."""
        tried = (
            f"(() => {{ try {{ const found = {script};"
            " return found instanceof Node ? true : found } catch { return null } })()"
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if found := self.run(tried):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{script} never came true. The page says:\n{self.text()}")

    def text(self) -> str:
        """What a visitor reads."""
        return str(self.run("document.body.innerText"))

    def click(self, selector: str) -> None:
        """Click what a selector finds, once it is there."""
        self.until(f"document.querySelector({json.dumps(selector)})")
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def fill(self, name: str, value: str) -> None:
        """Write into a field of a form, as somebody who types."""
        self.until(f"document.getElementById({json.dumps(name)})")
        self.run(
            f"(() => {{ const one = document.getElementById({json.dumps(name)});"
            f" one.value = {json.dumps(value)};"
            " for (const kind of ['input', 'change'])"
            " one.dispatchEvent(new Event(kind, {bubbles: true})) })()"
        )

    def choose_file(self, name: str, file: Path) -> None:
        """Choose a file in a field."""
        self.until(f"document.getElementById({json.dumps(name)})")
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        selector = f'[name="{name}"]'
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file)])

    def press(self, key: str, **more: Any) -> None:
        """A key, down and up."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, **more)

    def looks(self, width: int = 1280, height: int = 900, *, dark: bool = False) -> None:
        """The size of the window, and the colours that its visitor prefers."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, file: Path) -> None:
        """A screenshot of the whole page."""
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Tab]:
    """An empty tab of a browser of its own."""
    assert PROGRAM is not None
    process = subprocess.Popen(
        [PROGRAM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        listed = httpx.get(f"http://127.0.0.1:{_port(profile, process)}/json/list").json()
        address = next(one for one in listed if one["type"] == "page")["webSocketDebuggerUrl"]
        with connect(address, max_size=None, open_timeout=PATIENT) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(PATIENT)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> int:
    """Where it listens: it writes that down once it does."""
    end = time.monotonic() + PATIENT
    while time.monotonic() < end and process.poll() is None:
        written = profile / "DevToolsActivePort"
        if written.exists() and (lines := written.read_text().splitlines()):
            return int(lines[0])
        time.sleep(0.05)
    raise AssertionError(f"{PROGRAM} does not listen (it ended with {process.poll()})")
