"""Record a machine, so that every command with ``--host FILE`` can look at it elsewhere.

A `Recorder` stands between the reader and the machine and keeps each answer, "is not there" and
"cannot look" included: what one reading asked is what the record can answer, and nothing else of
the machine is taken along.
"""

from __future__ import annotations

import io
import json
import re
import tarfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jumar import __version__
from jumar.contracts.errors import OutputFailed
from jumar.host.read import read_host
from jumar.host.readers.container import RUNTIME_WORDS
from jumar.host.readers.files import WANTED
from jumar.host.readers.process import PACKAGES, concerns
from jumar.host.record import FORMAT
from jumar.host.redact import Redactor
from jumar.host.source import HostSource, Ran, follow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jumar.host.facts import Holder, HostFacts, PathFact, Port

T = TypeVar("T")


class Recorder:
    """A source that passes every question on and keeps the answers."""

    def __init__(self, source: HostSource) -> None:
        self.name = source.name
        self._source = source
        self.commands: dict[str, Ran] = {}
        self.missing_programs: set[str] = set()
        self.files: dict[str, tuple[str, str]] = {}
        """By resolved path: the path as it was asked for (/proc/self/…), and the text."""
        self.paths: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, str] = {}
        self.told: dict[str, Any] = {}
        """What is no file and no program: environ, process, disks, holders, listeners."""

    def run(self, *argv: str) -> Ran:
        line = " ".join(argv)
        with _Failure(self, "run", line):
            try:
                self.commands[line] = self._source.run(*argv)
            except FileNotFoundError:
                self.missing_programs.add(argv[0])
                raise
            return self.commands[line]

    def read(self, path: str) -> str:
        real = self._follow(path)
        with _Failure(self, "read", path):
            text = self._present(real, self._source.read, path)
            self.files[real] = path, text
            return text

    def listdir(self, path: str) -> Sequence[str]:
        real = self._follow(path)
        with _Failure(self, "list", path):
            names = self._present(real, self._source.listdir, path)
            self.paths.setdefault(real, {})["kind"] = "directory"
            for name in names:
                if path not in WANTED or WANTED[path].fullmatch(name):
                    self.paths.setdefault(f"{real.rstrip('/')}/{name}", {})
            return names

    def stat(self, path: str) -> PathFact:
        real = self._follow(path)
        with _Failure(self, "stat", path):
            fact = self._source.stat(path)
            known = {key: getattr(fact, key) for key in ("kind", "uid", "gid", "owner", "group")}
            known["mode"] = None if fact.mode is None else f"{fact.mode:04o}"
            kept = {key: value for key, value in known.items() if value is not None}
            self.paths.setdefault(real, {}).update(kept)
            return fact

    def readlink(self, path: str) -> str | None:
        target = self._source.readlink(path)
        if target is not None:
            self.paths.setdefault(path, {})["link"] = target
        return target

    def environ(self) -> Mapping[str, str]:
        return self._tell("environ", self._source.environ)

    def process(self) -> Mapping[str, Any]:
        return self._tell("process", self._source.process)

    def disk(self, path: str) -> tuple[int, int]:
        with _Failure(self, "disk", path):
            size = self._source.disk(path)
            self.told.setdefault("disks", {})[path] = size
            return size

    def holders(self) -> Mapping[str, Sequence[Holder]]:
        return self._tell("holders", self._source.holders)

    def listeners(self) -> Sequence[Port]:
        return self._tell("listeners", self._source.listeners)

    def _tell(self, what: str, ask: Callable[[], T]) -> T:
        with _Failure(self, what):
            answer = ask()
            self.told[what] = answer
            return answer

    def _follow(self, path: str) -> str:
        """The path behind all links, which are kept with their targets."""
        return follow(path, self.readlink)[0]

    def _present(self, real: str, ask: Callable[[str], T], path: str) -> T:
        try:
            return ask(path)
        except FileNotFoundError:
            self.paths.setdefault(real, {})["kind"] = "missing"
            raise


@dataclass(frozen=True, slots=True)
class _Failure:
    """Keeps why a question could not be answered; "is not there" is an answer."""

    recorder: Recorder
    question: str
    about: str = ""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            why = f"{error.filename}: {error.strerror}" if error.strerror else str(error)
            self.recorder.failures[f"{self.question} {self.about}".strip()] = why


def snapshot(source: HostSource, out: Path) -> tuple[HostFacts, Mapping[str, int]]:
    """Write a record of `source` to `out`; the facts that were read, and what was removed.

    Raises OutputFailed where the file exists or cannot be written.
    """
    recorder = Recorder(source)
    facts = read_host(recorder)
    texts, removed = clean(recorder)
    data = _pack(texts)
    try:
        with out.open("xb") as file:
            file.write(data)
    except FileExistsError as error:
        raise OutputFailed(f"{out} exists already", hint="Choose another name.") from error
    except OSError as error:
        raise OutputFailed(f"{out} cannot be written: {error.strerror}") from error
    return facts, removed


def clean(recorder: Recorder) -> tuple[dict[str, str], Mapping[str, int]]:
    """The texts of the record by the names of their parts, and what was removed by kind."""
    redactor = Redactor()
    process = dict(recorder.told.get("process", {}))
    redactor.forget("host name", process.pop("host_name", None), "HOST")
    redactor.forget("account name", process.get("user"), f"user{process.get('uid')}")
    host: dict[str, Any] = {
        "format": FORMAT,
        "made_by": f"jumar {__version__}",
        "complete": False,
        **_told(recorder, process, redactor),
        "missing_programs": sorted(recorder.missing_programs),
        "exit_codes": {line: ran.exit_code for line, ran in recorder.commands.items()},
        "failures": recorder.failures,
    }
    paths = {path: {**fact, **_accounts(fact, redactor)} for path, fact in recorder.paths.items()}
    texts = {
        "host.json": _json(redactor.data(host)),
        "paths.json": _json(redactor.data(paths)),
    }
    for line, ran in recorder.commands.items():
        texts[f"commands/{redactor.text(line)}.txt"] = redactor.text(ran.text)
    for real, (path, text) in recorder.files.items():
        kept = KEEP.get(path, _all)(text)
        clean_text = redactor.text(kept, versions=path not in WITH_ADDRESSES)
        texts[f"files{redactor.text(real)}"] = clean_text
    return texts, dict(sorted(redactor.removed.items()))


def _told(recorder: Recorder, process: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    told = dict(recorder.told)
    if "process" in told:
        packages = process.get("packages", {})
        names = process.get("group_names", [])
        told["process"] = {
            **process,
            "user": redactor.account(process.get("user"), process.get("uid")),
            "group_names": [redactor.account(name, at) for at, name in enumerate(names)],
            "packages": {name: packages[name] for name in PACKAGES if name in packages},
        }
    if "environ" in told:
        environ = told["environ"]
        told["environ"] = redactor.environ({k: v for k, v in environ.items() if concerns(k)})
    if "holders" in told:
        told["holders"] = _holders(told["holders"], redactor)
    if "listeners" in told:
        told["listeners"] = [asdict(port) for port in told["listeners"]]
    return told


def _holders(
    holders: Mapping[str, Sequence[Holder]], redactor: Redactor
) -> dict[str, list[dict[str, Any]]]:
    """Containers are numbered in place of their ids."""
    ids = [holder.container for held in holders.values() for holder in held if holder.container]
    numbers = {one: f"container{n}" for n, one in enumerate(dict.fromkeys(ids), start=1)}
    redactor.removed.update({"container id": len(numbers)} if numbers else {})
    return {
        node: [
            {**asdict(holder), "container": numbers.get(holder.container or "")} for holder in held
        ]
        for node, held in holders.items()
    }


def _accounts(fact: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    return {
        key: redactor.account(fact[key], fact.get(number))
        for key, number in (("owner", "uid"), ("group", "gid"))
        if key in fact
    }


def _all(text: str) -> str:
    return text


def _lines(pattern: str) -> Callable[[str], str]:
    """Keeps the lines that begin with `pattern`."""
    wanted = re.compile(pattern)
    return lambda text: "".join(ln for ln in text.splitlines(keepends=True) if wanted.match(ln))


def _mount_points(text: str) -> str:
    """Sources of mounts name servers and folders: only points and types are kept."""
    kept = []
    for line in text.splitlines():
        fields = line.split(" ")
        if len(fields) > 6 and "-" in fields[6:-1]:
            kept.append(f"0 0 0:0 / {fields[4]} - - {fields[fields.index('-', 6) + 1]} - -\n")
    return "".join(kept)


def _runtime_words(text: str) -> str:
    """Control groups name pods and containers: only the kinds of container are kept."""
    return "".join(f"0::/{word}\n" for word in RUNTIME_WORDS if word in text)


def _default_runtime(text: str) -> str:
    """Docker's settings hold registries and proxies: only the runtime is kept."""
    try:
        runtime = json.loads(text).get("default-runtime")
    except (ValueError, AttributeError):
        return ""  # The reader makes nothing of such a file either.
    return _json({} if runtime is None else {"default-runtime": runtime})


KEEP: Mapping[str, Callable[[str], str]] = {
    "/proc/self/mountinfo": _mount_points,
    "/proc/1/cgroup": _runtime_words,
    "/etc/docker/daemon.json": _default_runtime,
    "/proc/self/status": _lines("CapEff"),
    "/proc/meminfo": _lines("MemTotal|MemAvailable|SwapTotal"),
}
"""Files of which only a part is recorded."""
WITH_ADDRESSES = ("/etc/hccn.conf",)
"""Files in which four numbers with dots are an address rather than a version."""


def _json(data: Any) -> str:
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _pack(texts: Mapping[str, str]) -> bytes:
    """A tar archive whose bytes depend on the texts alone: no times, no owners."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, text in sorted(texts.items()):
            body = text.encode("utf-8")
            member = tarfile.TarInfo(name)
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
    return buffer.getvalue()
