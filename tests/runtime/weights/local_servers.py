"""A Hugging Face hub, a ModelScope and a package index on 127.0.0.1, with faults to order."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

COMMIT = "c0ffee" + "0" * 34


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Answer:
    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def json(cls, data: object) -> Answer:
        return cls(200, json.dumps(data).encode(), {"Content-Type": "application/json"})

    def since(self, begin: int) -> Answer:
        """The rest of the body, as a server that knows ranges sends it."""
        span = f"bytes {begin}-{len(self.body) - 1}/{len(self.body)}"
        return Answer(206, self.body[begin:], {**self.headers, "Content-Range": span})


@dataclass
class Site:
    """What a server has, what it was asked, and how it misbehaves.

    `cut`: bytes of a file's body after which the connection is closed, once. `down_after_cut`:
    from then on every file is answered with 503. `refuses`: (status, headers) for everything.
    `gate`: file requests wait for it. `moved`: the address that files are redirected to.
    `sent`: the files (None: answers without one) whose body was sent.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    listed: dict[str, str] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    cut: dict[str, int] = field(default_factory=dict)
    down_after_cut: bool = False
    refuses: tuple[int, dict[str, str]] | None = None
    gate: threading.Event | None = None
    moved: str = ""
    sent: list[str | None] = field(default_factory=list)
    down: bool = False
    url: str = ""

    def answer(self, request: Request) -> tuple[Answer, str | None]:
        """The answer, and which file it carries."""
        raise NotImplementedError

    def fetched(self, name: str) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and self.file_of(r) == name]

    def file_of(self, request: Request) -> str | None:
        raise NotImplementedError

    def digest(self, name: str) -> str:
        return self.listed.get(name, sha256(self.files[name]))

    def mend(self) -> None:
        self.down, self.down_after_cut, self.refuses = False, False, None


AnySite = TypeVar("AnySite", bound=Site)


class HubSite(Site):
    """owner/model at the one commit, and the branch main."""

    def file_of(self, request: Request) -> str | None:
        _, found, rest = request.path.partition("/owner/model/resolve/")
        return unquote(rest.partition("/")[2]) if found else None

    def answer(self, request: Request) -> tuple[Answer, str | None]:
        if request.path == f"/api/models/owner/model/tree/{COMMIT}":
            rows = [
                {
                    "type": "file",
                    "path": name,
                    "size": len(data),
                    "oid": hashlib.sha1(data).hexdigest(),
                }
                for name, data in self.files.items()
            ]
            return Answer.json(rows), None
        if request.path.startswith("/api/models/owner/model"):
            revision = request.path.partition("/revision/")[2] or "main"
            if revision not in ("main", COMMIT):
                return Answer(404, headers={"X-Error-Code": "RevisionNotFound"}), None
            siblings = [
                {
                    "rfilename": name,
                    "size": len(data),
                    "blobId": hashlib.sha1(data).hexdigest(),
                    "lfs": {"sha256": self.digest(name), "size": len(data), "pointerSize": 130},
                }
                for name, data in self.files.items()
            ]
            return Answer.json({"id": "owner/model", "sha": COMMIT, "siblings": siblings}), None
        name = self.file_of(request)
        if name not in self.files:
            return Answer(404, headers={"X-Error-Code": "RepoNotFound"}), None
        headers = {
            "ETag": f'"{sha256(self.files[name])}"',
            "X-Linked-Etag": f'"{sha256(self.files[name])}"',
            "X-Linked-Size": str(len(self.files[name])),
            "X-Repo-Commit": COMMIT,
        }
        return Answer(200, self.files[name], headers), name


class ScopeSite(Site):
    """owner/model of ModelScope, at the branch master."""

    def file_of(self, request: Request) -> str | None:
        is_file = request.path == "/api/v1/models/owner/model/repo"
        return request.query.get("FilePath") if is_file else None

    def answer(self, request: Request) -> tuple[Answer, str | None]:
        if request.query.get("Revision") != "master":
            return Answer(404), None
        if request.path == "/api/v1/models/owner/model/repo/files":
            rows = [
                {"Path": n, "Name": n, "Type": "blob", "Size": len(d), "Sha256": self.digest(n)}
                for n, d in self.files.items()
            ]
            rows.append({"Path": "folder", "Name": "folder", "Type": "tree", "Size": 0})
            return Answer.json({"Code": 200, "Success": True, "Data": {"Files": rows}}), None
        name = self.file_of(request)
        if name not in self.files:
            return Answer(404), None
        return Answer(200, self.files[name]), name


class IndexSite(Site):
    """A package index in the simple format; `files` are wheels by file name."""

    def file_of(self, request: Request) -> str | None:
        return request.path.removeprefix("/wheels/") if "/wheels/" in request.path else None

    def answer(self, request: Request) -> tuple[Answer, str | None]:
        if request.path.startswith("/simple/"):
            project = request.path.removeprefix("/simple/").strip("/").replace("-", "_")
            links = [
                f'<a href="/wheels/{name}">{name}</a>'
                for name in self.files
                if name.startswith(project + "-")
            ]
            body = f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()
            return Answer(200 if links else 404, body, {"Content-Type": "text/html"}), None
        name = self.file_of(request)
        return (Answer(200, self.files[name]), name) if name in self.files else (Answer(404), None)


class Handler(BaseHTTPRequestHandler):
    """Answers for the server's `site`, with the faults that it orders."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        site, split = self.site, urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(split.query).items()}
        headers = {key.lower(): value for key, value in self.headers.items()}
        request = Request(self.command, split.path, query, headers)
        site.requests.append(request)
        answer, name = site.answer(request)
        if site.refuses is not None:
            answer, name = Answer(site.refuses[0], headers=site.refuses[1]), None
        elif name is not None and site.down:
            answer, name = Answer(503), None
        elif name is not None and site.moved:
            answer, name = Answer(302, headers={"Location": f"{site.moved}{self.path}"}), None
        if name is not None and request.range:
            answer = answer.since(int(request.range.removeprefix("bytes=").removesuffix("-")))
        self._send(answer, name)

    def do_HEAD(self) -> None:
        self.do_GET()

    @property
    def site(self) -> Site:
        return self.server.site  # type: ignore[attr-defined,no-any-return]

    def _send(self, answer: Answer, name: str | None) -> None:
        site, body = self.site, answer.body
        self.send_response(answer.status)
        for key, value in {**answer.headers, "Content-Length": str(len(body))}.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if name is not None and site.gate is not None:
            site.gate.wait(30)
        if name in site.cut:
            body = body[: site.cut.pop(name)]
            site.down = site.down_after_cut
            self.close_connection = True
        self.wfile.write(body)
        site.sent.append(name)

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what some of the tests are about."""


@contextmanager
def running(site: AnySite) -> Iterator[AnySite]:
    server = Server(("127.0.0.1", 0), Handler)
    server.site = site  # type: ignore[attr-defined]
    site.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        if site.gate is not None:
            site.gate.set()
        server.shutdown()
        thread.join()
        server.server_close()


def wheel(
    name: str,
    version: str,
    files: dict[str, bytes],
    *,
    record: dict[str, bytes | None] | None = None,
    own_record: bytes | None = b"as it should be",
    symlinks: dict[str, str] | None = None,
) -> dict[str, bytes]:
    """A wheel by its file name. `record` replaces what its RECORD speaks of, `own_record` the
    RECORD; None leaves it out.
    """
    info = f"{name}-{version}.dist-info"
    metadata = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    content = {**files, **metadata}
    spoken = {**content, **(record or {})}
    rows = [
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode()[:-1]},"
        f"{len(data)}"
        for path, data in spoken.items()
        if data is not None
    ]
    if own_record == b"as it should be":
        own_record = "\n".join([*rows, f"{info}/RECORD,,"]).encode()
    if own_record is not None:
        content[f"{info}/RECORD"] = own_record
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, data in content.items():
            archive.writestr(path, data)
        for path, target in (symlinks or {}).items():
            link = zipfile.ZipInfo(path)
            link.external_attr = 0o120777 << 16
            archive.writestr(link, target)
    return {f"{name}-{version}-py3-none-any.whl": buffer.getvalue()}
