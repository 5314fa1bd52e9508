"""FlagGems' table, read without importing it."""

from __future__ import annotations

import pytest
from tests.operators.catalogue import peers

from jumar.contracts.errors import InvalidInput
from jumar.operators.catalogue import flag_gems, read, shipped

OPS = {
    "ops/__init__.py": "from flag_gems.ops.add import add, add_\n"
    "from flag_gems.ops.chunk import chunk_cat as _chunk_cat\n"
    "from .range import range as range_op\n",
    "ops/add.py": "@jit\ndef kernel():\n    pass\n\n\ndef add(a):\n    pass\n\n\nadd_ = add\n",
    "ops/chunk.py": "if True:\n\n    def chunk_cat():\n        pass\n",
    "ops/range.py": "\n\ndef range():\n    pass\n",
}


def test_every_entry_of_a_real_release_is_found(tmp_path):
    found = flag_gems.read(peers.as_released(tmp_path), peers.FACTS["version"])
    assert sorted((one.operator, one.function) for one in found.implementations) == sorted(
        (f"aten::{name}", function) for name, function in peers.FACTS["table"]
    )
    assert {one.key for one in found.implementations} == {"PrivateUse1"}
    assert found.versions == {"flag_gems": "5.0.2"}
    assert found.unused["flag_gems"]["ascend"] == tuple(peers.FACTS["unused"]["ascend"])


def test_a_function_is_named_as_python_names_it_not_as_the_table_does(tmp_path):
    table = '("_chunk_cat", _chunk_cat), ("range", range_op), ("add_.Tensor", add_),'
    found = flag_gems.read(peers.flag_gems(tmp_path, table, OPS))
    assert {one.operator: one.function for one in found.implementations} == {
        "aten::_chunk_cat": "chunk_cat",
        "aten::range": "range",
        "aten::add_.Tensor": "add",
    }


def test_the_function_is_the_vendors_own_where_it_has_one(tmp_path, monkeypatch):
    own = {
        "runtime/backend/_ascend/ops/__init__.py": "from .add import add_npu as add\n",
        "runtime/backend/_ascend/ops/add.py": "\n\ndef add_npu(a):\n    pass\n",
    }
    folder = peers.flag_gems(tmp_path, '("add.Tensor", add),', {**OPS, **own})
    (npu,) = flag_gems.read(folder).implementations
    monkeypatch.setenv("GEMS_VENDOR", "nvidia")
    (cuda,) = flag_gems.read(folder).implementations
    assert (npu.function, npu.key) == ("add_npu", "PrivateUse1")
    assert (cuda.function, cuda.key, cuda.origin) == ("add", "CUDA", "flag_gems.ops.add")


def test_conditions_and_further_keys_of_an_entry_are_kept(tmp_path):
    table = (
        '("add.Tensor", add, lambda: torch_ge("2.5")),'
        '("add.out", add, None, (AUTOGRAD_DISPATCH_KEY, SPARSE_CSR_DISPATCH_KEY)),'
    )
    found = flag_gems.read(peers.flag_gems(tmp_path, table, OPS)).implementations
    assert [(one.operator, one.key, one.condition) for one in found] == [
        ("aten::add.Tensor", "PrivateUse1", "torch_ge('2.5')"),
        ("aten::add.out", "PrivateUse1", ""),
        ("aten::add.out", "Autograd", ""),
        ("aten::add.out", "SparseCsrPrivateUse1", ""),
    ]


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('("add.Tensor", nowhere),', "nothing in the package defines nowhere"),
        ('("add.Tensor",),', "is no entry"),
        ('("add.Tensor", add, None, (SOMETHING,)),', "SOMETHING is no dispatch key"),
    ],
)
def test_a_table_that_is_not_understood_is_an_error_never_a_shorter_list(tmp_path, table, words):
    with pytest.raises(InvalidInput, match=words):
        flag_gems.read(peers.flag_gems(tmp_path, table, OPS))


def test_a_folder_without_the_table_is_no_flag_gems(tmp_path):
    with pytest.raises(InvalidInput, match="no FlagGems"):
        flag_gems.read(peers.write(tmp_path / "flag_gems", {"other.py": ""}))


def test_a_vendor_that_it_does_not_have_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("GEMS_VENDOR", "acme")
    with pytest.raises(InvalidInput, match="no vendor 'acme'"):
        flag_gems.read(peers.as_released(tmp_path))


def test_the_record_that_is_shipped_is_that_release():
    recorded = read(shipped()["flag_gems-5.0.2"])
    assert sorted((one.operator, one.function) for one in recorded.implementations) == sorted(
        (f"aten::{name}", function) for name, function in peers.FACTS["table"]
    )
    assert recorded.versions == {"flag_gems": "5.0.2"}
