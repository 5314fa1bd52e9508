"""Weights and tensors go to files and come back to the card that is named."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
from tests.emulated.comparing import CARD, equal
from torch import nn


def test_state_dicts_cross_devices():
    def make():
        return nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    cpu, npu = make(), make().to(CARD)
    npu.load_state_dict(cpu.state_dict())
    for key, value in npu.state_dict().items():
        equal(value, cpu.state_dict()[key])
    cpu.load_state_dict(npu.state_dict())
    empty = nn.Linear(3, 3, device="meta")
    weights = {key: value.to(CARD) for key, value in nn.Linear(3, 3).state_dict().items()}
    empty.load_state_dict(weights, assign=True)
    assert empty.weight.device.type == "npu"
    assert nn.Linear(3, 3, device="meta").to_empty(device=CARD).weight.device.type == "npu"


def test_safetensors_loads_onto_a_card(tmp_path):
    from safetensors.torch import load_file, safe_open, save_file

    path = tmp_path / "weights.safetensors"
    tensors = {"a": torch.randn(3, 4), "b": torch.arange(5), "h": torch.randn(2, 3).bfloat16()}
    save_file(tensors, path)
    for key, value in load_file(path, device="npu:1").items():
        assert value.device == torch.device("npu:1")
        equal(value, tensors[key])
    with safe_open(path, "pt", device=CARD) as file:
        equal(file.get_slice("a")[1:2], tensors["a"][1:2])
    save_file({key: value.to(CARD) for key, value in tensors.items()}, path)
    assert torch.equal(load_file(path)["a"], tensors["a"])


@pytest.mark.parametrize(
    ("where", "lands"),
    [
        (None, "npu:1"),
        ("cpu", "cpu"),
        ("npu:0", "npu:0"),
        (torch.device("npu", 0), "npu:0"),
    ],
)
def test_a_saved_tensor_lands_where_it_is_asked_to(where, lands):
    x = torch.randn(3, 4, device="npu:1")
    file = io.BytesIO()
    torch.save({"x": x, "view": x[1:], "parameter": nn.Parameter(x)}, file)
    file.seek(0)
    loaded = torch.load(file, map_location=where, weights_only=True)
    assert str(loaded["x"].device) == lands
    assert torch.equal(loaded["view"].cpu(), x[1:].cpu())


def test_pickles_and_copies():
    x = torch.randn(3, 4, device="npu:1")
    again = pickle.loads(pickle.dumps(x))
    assert again.device == x.device
    equal(again, x.cpu())
    other = copy.deepcopy(x)
    assert other.data_ptr() != x.data_ptr()
    equal(other, x.cpu())


def test_a_storage_grows_and_keeps_its_bytes():
    x = torch.ones(2, device=CARD)
    x.resize_(100)
    assert x.shape == (100,) and x[0].item() == 1
    storage = torch.ones(4, device=CARD).untyped_storage()
    storage.resize_(64)
    assert storage.nbytes() == 64 and storage.device == torch.device(CARD)
    assert torch.UntypedStorage(8, device="npu:1").device == torch.device("npu:1")
