"""Evidence on disk: one file per record, written once, read by anybody."""

from __future__ import annotations

import os

import pytest

from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.evidence import Evidence, Store, Subject


def evidence(at=1.0, **changes):
    return Evidence(
        subject=Subject(operator="aten::mm", implementation="device"),
        fingerprint={"device_class": "npu"},
        verdict="wrong",
        found_by="check",
        at=at,
        **changes,
    )


def test_what_is_added_is_there_oldest_first(tmp_path):
    store = Store(tmp_path / "made" / "when-needed")
    assert list(store) == []
    late, early = evidence(9.0), evidence(2.0)
    for one in (late, early, late):
        store.add(one)
    assert list(store) == [early, late]
    assert len(list(store.folder.iterdir())) == 2


def test_a_record_is_found_by_the_beginning_of_its_id(tmp_path):
    store = Store(tmp_path)
    one = evidence()
    store.add(one)
    assert store.get(one.id[:4]) == one
    for other in ("", "zz", "../" + one.id):
        with pytest.raises(InvalidInput, match="no record|several"):
            store.get(other)


def test_a_beginning_that_two_records_share_is_refused(tmp_path):
    store = Store(tmp_path)
    records = [evidence(float(n)) for n in range(20)]
    for one in records:
        store.add(one)
    shared = next(a.id[0] for a in records for b in records if a != b and a.id[0] == b.id[0])
    with pytest.raises(InvalidInput, match="several"):
        store.get(shared)


def test_folders_of_two_machines_can_be_copied_together(tmp_path):
    ours, theirs = Store(tmp_path / "a"), Store(tmp_path / "b")
    ours.add(evidence(1.0))
    theirs.add(evidence(2.0))
    theirs.add(evidence(1.0))
    for path in theirs.folder.glob("*.json"):
        path.replace(ours.folder / path.name)
    assert [one.at for one in ours] == [1.0, 2.0]


@pytest.mark.parametrize("text", ["", "{}", "[]", "{", '{"subject": 3}', "\x00\xff"])
def test_a_file_that_is_no_record_is_named_in_one_line(tmp_path, text):
    (tmp_path / "abc.json").write_text(text)
    with pytest.raises(InvalidInput, match=r"abc\.json is not a record") as refused:
        list(Store(tmp_path))
    assert len(refused.value.message.splitlines()) == 1
    assert "Move it away" in str(refused.value.hint)


def test_a_half_written_file_is_nobodys_business(tmp_path):
    (tmp_path / ".abc.json.77").write_text("{")
    assert list(Store(tmp_path)) == []


@pytest.mark.parametrize("use", [Store.ready, lambda store: store.add(evidence())])
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path, use):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFailed, match="cannot be written"):
        use(Store(tmp_path / "file"))


def test_a_store_that_is_ready_is_empty_still(tmp_path):
    store = Store(tmp_path / "new").ready()
    assert list(store.folder.iterdir()) == []
    store.add(evidence())


def test_a_folder_in_the_users_home_may_be_written_short(monkeypatch):
    monkeypatch.setenv("JUMAR_EVIDENCE", "~/found")
    assert "~" not in os.fspath(Store().folder)


def test_the_environment_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path))
    assert Store().folder == tmp_path
    monkeypatch.delenv("JUMAR_EVIDENCE")
    assert os.fspath(Store().folder).endswith(os.path.join("jumar", "evidence"))
