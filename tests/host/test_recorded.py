"""Records that people pack by hand, or that came damaged: read as far as they go, or refused."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.host.recorded import sample

from jumar.contracts.errors import InvalidInput
from jumar.host import open_host, recorded
from jumar.host.doctor import examine
from jumar.host.read import read_host
from jumar.host.record import Host, Paths, Process, read_part
from jumar.host.recorded import RecordedSource
from jumar.host.source import PROCESS_KEYS

TABLE = "commands/npu-smi info.txt"
CARDS = sample("npu-smi-info__910B3__25.5.1__engine-process.txt")


def pack(path: Path, texts: Mapping[str, str | bytes], *more: tarfile.TarInfo) -> str:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in texts.items():
            data = text.encode() if isinstance(text, str) else text
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
        for member in more:
            tar.addfile(member)
    return str(path)


def special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


WRONG: list[tuple[str, object, str]] = [
    ("host.json", {"format": "x"}, "format"),
    ("host.json", {"process": [1]}, "process"),
    ("host.json", {"process": {"uid": "root"}}, "process.uid"),
    ("host.json", {"process": {"packages": ["torch"]}}, "process.packages"),
    ("host.json", {"process": {"packages": {"torch": "2.8"}}}, "process.packages.torch"),
    ("host.json", {"disks": {"/": 5}}, "disks./"),
    ("host.json", {"disks": {"/": ["a", "b"]}}, "disks./.0"),
    ("host.json", {"holders": {"/dev/davinci0": [{"pid": "x"}]}}, "holders./dev/davinci0.0.pid"),
    ("host.json", {"listeners": [8000]}, "listeners.0"),
    ("host.json", {"environ": ["A=1"]}, "environ"),
    ("host.json", {"environ": {"ASCEND_HOME_PATH": 5}}, "environ.ASCEND_HOME_PATH"),
    ("host.json", {"exit_codes": {"npu-smi info": "x"}}, "exit_codes"),
    ("host.json", {"failures": ["x"]}, "failures"),
    ("paths.json", {"/a": 5}, "/a"),
    ("paths.json", {"relative": "file"}, "relative"),
    ("paths.json", {"//two": "file"}, "//two"),
    ("paths.json", {"": "file"}, "paths.json"),
    ("paths.json", {"/a": "banana"}, "/a.kind"),
    ("paths.json", {"/a": {"kind": "char", "mode": "0999"}}, "/a.mode"),
    ("paths.json", {"/a": {"link": 5}}, "/a.link"),
]


@pytest.mark.parametrize(("part", "value", "named"), WRONG)
def test_a_wrong_value_in_a_record_is_named(
    part: str, value: object, named: str, tmp_path: Path
) -> None:
    host = pack(tmp_path / "host.tgz", {TABLE: CARDS, part: json.dumps(value)})
    with pytest.raises(InvalidInput, match=r"\.json") as caught:
        open_host(host)
    assert named in caught.value.message
    assert part in caught.value.message


def test_a_misspelt_name_in_a_record_is_not_passed_over(tmp_path: Path) -> None:
    host = pack(tmp_path / "host.tgz", {"host.json": '{"process": {"cwd_writeable": false}}'})
    with pytest.raises(InvalidInput) as caught:
        open_host(host)
    assert caught.value.hint == "Did you mean 'cwd_writable'?"


def test_the_shape_has_the_keys_that_readers_ask_for() -> None:
    assert set(Process.model_fields) == set(PROCESS_KEYS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
entries = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("kind", "mode", "uid", "link", "owner"), json_values)
)
told = st.fixed_dictionaries({}, optional=dict.fromkeys(Host.model_fields, json_values))
paths = st.dictionaries(
    st.sampled_from(["/dev", "/dev/davinci0", "/usr/local/Ascend/cann", "/", "//x", "x", "/a/"])
    | st.text(max_size=4),
    json_values | entries | st.sampled_from(["file", "directory", "char"]),
    max_size=4,
)


@settings(max_examples=200, deadline=None)
@given(host=told, places=paths)
def test_any_json_makes_facts_or_is_refused(host: object, places: object) -> None:
    texts = {"host.json": json.dumps(host), "paths.json": json.dumps(places), TABLE: CARDS}
    try:
        source = RecordedSource("record", texts)
    except InvalidInput:
        return
    facts = read_host(source)
    assert len(facts.cards) == 2
    json.dumps(facts.to_dict())
    examine(facts)


def test_deep_json_and_half_characters_are_refused() -> None:
    for text in ("[" * 100_000, '{"made_by": "\\ud800"}', "{", "\x00"):
        with pytest.raises(InvalidInput):
            read_part("host.json", Host, text)
        with pytest.raises(InvalidInput):
            read_part("paths.json", Paths, text)


def test_members_outside_the_record_and_special_files_are_passed_over(tmp_path: Path) -> None:
    host = pack(
        tmp_path / "host.tgz",
        {TABLE: CARDS, "../../etc/evil": "x", "/etc/absolute": "x", "files/../../up": "x"},
        special("files/etc/link", tarfile.SYMTYPE, "/etc/passwd"),
        special("files/etc/again", tarfile.LNKTYPE, "files/etc/again"),
        special("files/pipe", tarfile.FIFOTYPE),
        special("files/node", tarfile.CHRTYPE),
    )
    before = sorted(tmp_path.rglob("*"))
    facts = open_host(host)
    assert len(facts.cards) == 2
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/etc/evil").exists()


def test_circles_of_links_are_told_not_followed(tmp_path: Path) -> None:
    circle = {
        "/usr/local/Ascend/cann": {"link": "cann"},
        "/etc/ascend_install.info": {"link": "/etc/a"},
        "/etc/a": {"link": "/etc/ascend_install.info"},
    }
    host = pack(tmp_path / "host.tgz", {TABLE: CARDS, "paths.json": json.dumps(circle)})
    facts = open_host(host)
    assert facts.unseen["install_info"] == "too many links: /etc/ascend_install.info"


@pytest.mark.parametrize("kind", ["archive", "folder", "file"])
def test_no_more_is_read_than_a_record_can_have(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded, "MEMBER_LIMIT", len(CARDS) - 1)
    folder = tmp_path / "host"
    (folder / "commands").mkdir(parents=True)
    (folder / TABLE).write_text(CARDS)
    hosts = {
        "archive": pack(tmp_path / "host.tgz", {TABLE: CARDS}),
        "folder": str(folder),
        "file": str(folder / TABLE),
    }
    with pytest.raises(InvalidInput, match="too large"):
        open_host(hosts[kind])


def test_a_file_that_may_not_be_read_is_told_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "environ.txt").write_text("A=1\n")

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InvalidInput, match=r"environ\.txt"):
        open_host(str(tmp_path))


@pytest.mark.parametrize(
    ("encoding", "mark"),
    [("utf-8", ""), ("utf-8", "\ufeff"), ("utf-16-le", "\ufeff"), ("utf-16-be", "\ufeff")],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_saved_table_is_read_in_the_encodings_of_windows_too(
    encoding: str, mark: str, line_end: str, tmp_path: Path
) -> None:
    text = CARDS.replace("\n", line_end)
    file = tmp_path / "npu-smi.txt"
    file.write_bytes(f"{mark}{text}".encode(encoding))
    facts = open_host(str(file))
    assert [card.npu_id for card in facts.cards] == [0, 5]
    assert facts.unread == ()


FAILS = [
    "npu-smi-FAIL__8005-cannot-open-devices.txt",
    "npu-smi-FAIL__binary-missing.txt",
    "npu-smi-FAIL__libc_sec-missing.txt",
    "npu-smi-FAIL__no-card.txt",
]


@pytest.mark.parametrize("name", FAILS)
def test_a_saved_error_of_npu_smi_is_a_record_too(name: str, tmp_path: Path) -> None:
    file = tmp_path / "npu-smi.txt"
    file.write_text(sample(name))
    facts = open_host(str(file))
    assert facts.npu_smi.error is not None
    assert examine(facts).findings


@pytest.mark.parametrize("text", ["", "\x00\x01", "hello\n", "npu-smi is what I wanted to run\n"])
def test_any_other_text_is_no_record(text: str, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)
    with pytest.raises(InvalidInput, match="no recorded host"):
        open_host(str(file))
