"""Catalogues as files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar import emulator
from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.operators.catalogue import (
    Catalogue,
    Implementation,
    Operator,
    Reentry,
    merged,
    opened,
    read,
    shipped,
    write,
)

text = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1, max_size=8)
keys = st.lists(st.sampled_from(["CPU", "PrivateUse1", "Autograd"]), unique=True).map(tuple)
operator_names = st.sampled_from(["aten::add.Tensor", "aten::mm", "npu::x", "rms_norm"])
catalogues = st.builds(
    lambda versions, operators, implementations, unused, reentries: merged(
        [Catalogue(versions, operators, tuple(implementations), unused, reentries)]
    ),
    st.dictionaries(text, text, max_size=2),
    st.lists(
        st.builds(Operator, operator_names, text, keys, st.text()),
    ).map(lambda rows: {row.name: row for row in rows}),
    st.lists(st.builds(Implementation, operator_names, text, st.text(), text, text, st.text())),
    st.dictionaries(text, st.dictionaries(text, st.lists(text).map(tuple), max_size=2), max_size=2),
    st.dictionaries(
        operator_names,
        st.none() | st.sets(operator_names).map(
            lambda called: tuple(Reentry(name, "run") for name in sorted(called))
        ),
    ),
)  # fmt: skip


@given(catalogues, st.sampled_from(["c.json", "c.json.gz"]))
def test_what_was_written_is_read_again(tmp_path_factory, catalogue, name):
    path = tmp_path_factory.mktemp("record") / name
    assert read(write(catalogue, path)) == catalogue
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_a_compressed_record_is_smaller(tmp_path):
    known = read(shipped()["torch_npu-2.13.0"])
    small, large = write(known, tmp_path / "c.json.gz"), write(known, tmp_path / "c.json")
    assert small.stat().st_size * 4 < large.stat().st_size


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"format": 99}', "is of format 99; this version of Jumar reads 1"),
        ("[]", "is of format None"),
        ("{", "no recorded catalogue"),
        ('{"format": 1, "operatros": {}}', "made_by: Field required"),
        (
            '{"format": 1, "made_by": "", "source": "", "versions": {}, "operators": {}, "use": 1}',
            "use: Extra inputs are not permitted",
        ),
        ("\x1f\x8b broken", "no recorded catalogue"),
    ],
)
def test_what_is_no_record_of_a_known_format_is_refused(tmp_path, content, words):
    path = tmp_path / "c.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InvalidInput, match=words) as refused:
        read(path)
    assert len(refused.value.message.splitlines()) == 1


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_catalogue_knows_operators_or_functions(name):
    known = opened([name])
    assert known.operators or known.implementations


def test_names_that_may_be_meant_are_no_empty_ones():
    catalogue = opened(["torch_npu-2.13.0"])
    assert "" not in str(catalogue.unknown("qqqqqqqq").hint).removeprefix("Valid: ").split(", ")


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(OutputFailed, match="cannot be written"):
        write(Catalogue({}, {}), tmp_path / "none" / "c.json")


def test_a_catalogue_that_is_neither_file_nor_shipped_is_told_the_nearest():
    with pytest.raises(InvalidInput) as refused:
        opened(["torch_npu-2.13"])
    assert "torch_npu-2.13.0" in str(refused.value.hint)


def test_two_versions_of_one_library_are_never_mixed():
    with pytest.raises(InvalidInput, match=r"torch 2\.9, another of 2\.13"):
        merged([Catalogue({"torch": "2.9"}, {}), Catalogue({"torch": "2.13"}, {})])


def test_of_an_operator_in_two_catalogues_the_keys_of_both_are_known():
    one = Operator("aten::mm", "mm", ("CPU",))
    other = Operator("aten::mm", "mm", ("PrivateUse1",), "mm() -> ()")
    joined = merged([Catalogue({}, {one.name: one}), Catalogue({}, {one.name: other})])
    assert joined.operators == {
        "aten::mm": Operator("aten::mm", "mm", ("CPU", "PrivateUse1"), "mm() -> ()")
    }


def test_what_is_shipped_of_torch_npu_is_what_the_emulator_was_given_of_it():
    recorded = read(shipped()["torch_npu-2.13.0"])
    native = Path(emulator.__file__).with_name("native_2.13.txt").read_text().splitlines()
    aten = {one.operator for one in recorded.implementations if one.operator.startswith("aten::")}
    assert len(aten) > 1000
    assert {name.removeprefix("aten::").partition(".")[0] for name in aten} <= set(native)
    api = json.loads((Path(__file__).parents[2] / "emulated/torch_npu-2.13.0.json").read_text())
    assert api["schemas"]
    assert set(api["schemas"]) <= {one.schema for one in recorded.operators.values()}
    assert {one.provider for one in recorded.implementations} == {"torch_npu"}


def test_no_shipped_record_names_a_place_of_the_machine_that_made_it():
    for path in shipped().values():
        said = {group["origin"] for group in json.loads(path.read_text())["implementations"]}
        assert not [place for place in said if place.startswith("/")]


def test_a_record_is_not_taken_for_what_is_installed():
    recorded = read(shipped()["torch_npu-2.13.0"])
    assert not recorded.live
    assert recorded.reenters("npu::npu_rms_norm") is None
    assert dataclasses.replace(recorded, live=True) != recorded
