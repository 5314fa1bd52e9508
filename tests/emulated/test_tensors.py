"""Tensors on an emulated card are tensors."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from tests.emulated.comparing import CARD, equal, same


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2, 3, device=d),
        lambda d: torch.ones(2, device=d),
        lambda d: torch.arange(7, device=d),
        lambda d: torch.full((2, 2), 5, device=d),
        lambda d: torch.tensor([[1.0, 2.0]], device=d),
        lambda d: torch.eye(3, device=d),
        lambda d: torch.linspace(0, 1, 5, device=d),
        lambda d: torch.zeros_like(torch.ones(2, device=d)),
        lambda d: torch.ones(3, device=d).new_full((2,), 4.0),
        lambda d: torch.tensor(3, device=d),
        lambda d: torch.tril(torch.ones(4, 4, device=d)),
        lambda d: torch.as_tensor([1, 2, 3], device=d),
        lambda d: torch.empty(0, 3, device=d),
    ],
)
def test_a_factory_makes_the_same_tensor(make):
    equal(make(CARD), make("cpu"))


def test_random_factories_draw_on_the_card_that_is_named():
    for device in ("npu", "npu:1", torch.device("npu", 1)):
        index = 0 if device == "npu" else 1
        for make in (torch.randn, torch.rand, torch.empty):
            assert make(2, 3, device=device).device == torch.device("npu", index)
        assert int(torch.randint(0, 9, (4,), device=device).max()) < 9
        assert sorted(torch.randperm(5, device=device).tolist()) == [0, 1, 2, 3, 4]


A, B = torch.randn(4, 5), torch.randn(4, 5)


@pytest.mark.parametrize(
    ("compute", "tolerance"),
    [
        (lambda a, b: a + b * 2 - a / (b.abs() + 1), 0),
        (torch.maximum, 0),
        (lambda a, b: a.sum(0), 0),
        (lambda a, b: a.mean(), 0),
        (lambda a, b: a.std(1), 0),
        (lambda a, b: tuple(a.max(1)), 0),
        (lambda a, b: tuple(a.topk(2)), 0),
        (lambda a, b: tuple(a.sort(1)), 0),
        (lambda a, b: a.cumsum(1), 0),
        (lambda a, b: a.argmax(1), 0),
        (lambda a, b: a @ b.t(), 0),
        (lambda a, b: torch.einsum("ij,kj->ik", a, b), 0),
        (lambda a, b: a.softmax(-1), 0),
        (lambda a, b: a.log_softmax(-1), 0),
        (lambda a, b: F.gelu(a), 0),
        (lambda a, b: F.silu(a), 0),
        (lambda a, b: torch.cat([a, b], 1), 0),
        (lambda a, b: torch.stack([a, b]), 0),
        (lambda a, b: a.norm(dim=1), 0),
        (lambda a, b: torch.where(a > 0, a, b), 0),
        (lambda a, b: a.half().float(), 0),
        (lambda a, b: (a > 0).long(), 0),
        (lambda a, b: torch.bmm(a.expand(3, 4, 5), a.t().expand(3, 5, 4)), 0),
        (lambda a, b: F.interpolate(a[None, None], scale_factor=2), 0),
        (lambda a, b: torch.linalg.svdvals(a), 1e-5),
        (lambda a, b: torch.fft.rfft(a), 1e-5),
        (lambda a, b: F.pad(a, (1, 1)), 0),
        (lambda a, b: a.to(torch.complex64).conj() * 2j, 0),
        (lambda a, b: torch.nan_to_num(a / 0), 0),
    ],
)
def test_an_operator_answers_as_the_cpu(compute, tolerance):
    same(compute, A, B, tolerance=tolerance)


def test_writing_in_place_keeps_the_memory():
    def change(a):
        a.add_(1).mul_(2)
        a[0] = 7
        a[:, 1] += 3
        a.clamp_(min=0)
        a.t().sub_(1)
        a.fill_diagonal_(9)
        a.masked_fill_(a > 8, -1)
        a.copy_(a + 1)
        return a

    same(change, torch.randn(4, 4))
    same(lambda a, b: a.addmm_(a, b), torch.randn(3, 3), torch.randn(3, 3))
    x = torch.randn(3, device=CARD)
    where = x.data_ptr()
    x += 1
    F.relu_(x)
    assert x.data_ptr() == where


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.permute(2, 0, 1),
        lambda a: a.reshape(6, 4),
        lambda a: a.unsqueeze(1).expand(2, 5, 3, 4),
        lambda a: a[..., ::2],
        lambda a: a[None, :, -1],
        lambda a: a.unfold(2, 2, 1),
        lambda a: a.as_strided((2, 2), (1, 3), 2),
        lambda a: a.diagonal(0, 1, 2),
        lambda a: a.movedim(0, 2),
        lambda a: a.narrow(1, 1, 2),
        lambda a: a.squeeze(),
        lambda a: a.view(torch.int32),
        lambda a: a.select(1, 2),
        lambda a: a.detach(),
        lambda a: a.chunk(2, 2)[1],
        lambda a: a.split([1, 2], 1)[1],
        lambda a: a.unbind(0)[1],
    ],
)
def test_a_view_shares_memory_with_the_cpus_strides(view):
    base = torch.arange(24.0, device=CARD).view(2, 3, 4)
    npu, cpu = view(base), view(torch.arange(24.0).view(2, 3, 4))
    assert (npu.stride(), npu.storage_offset()) == (cpu.stride(), cpu.storage_offset())
    assert npu.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
    equal(npu, cpu)


def test_what_is_written_into_a_view_stands_in_its_base():
    base = torch.zeros(4, device=CARD)
    view = base.view(2, 2)
    view[1, 1] = 5
    assert view._is_view() and base[3].item() == 5


def test_indexing_reads_and_writes():
    a, i = torch.randn(5, 6), torch.tensor([0, 3, 3])
    m = a > 0
    same(lambda a, i: a[i], a, i)
    same(lambda a, m: a[m], a, m)
    same(lambda a, i: a[:, i], a, i)
    same(lambda a, i: a.index_select(0, i), a, i)
    same(lambda m: m.nonzero(), m)
    same(lambda a, i: a.gather(0, i[None, :].expand(2, 3)), a, i)
    same(lambda a, i: torch.zeros_like(a).scatter_(0, i[None, :].expand(2, 3), a), a, i)

    def put(a, i):
        a[i] = 0
        a[i, 2] = 1.5
        return a.index_add_(0, i, torch.ones(3, 6, device=a.device))

    same(put, a, i)


def test_index_tensors_may_lie_on_the_cpu():
    a, i = torch.randn(5, 6), torch.tensor([0, 3, 3])
    n, m = a.to(CARD), a > 0
    assert torch.equal(n[i].cpu(), a[i]) and torch.equal(n[m].cpu(), a[m])
    n[m] = 0
    assert (n.cpu()[m] == 0).all() and n[[0, 2]].shape == (2, 6)


@pytest.mark.parametrize(
    "mix",
    [
        lambda n, c: n + c,
        lambda n, c: n @ c,
        lambda n, c: torch.cat([n, c]),
        lambda n, c: torch.nn.functional.linear(n, torch.ones(2, 2)),
    ],
)
def test_tensors_of_two_devices_are_refused(mix):
    with pytest.raises(RuntimeError, match="same device"):
        mix(torch.ones(2, device=CARD), torch.ones(2))


def test_two_cards_are_two_devices():
    with pytest.raises(RuntimeError, match="npu:1"):
        torch.ones(2, device=CARD) + torch.ones(2, device="npu:1")


def test_a_number_on_the_cpu_may_meet_a_tensor_on_a_card():
    n = torch.ones(2, device=CARD)
    equal(n + torch.tensor(2.0), torch.full((2,), 3.0))
    equal(torch.tensor(2.0) * n, torch.full((2,), 2.0))


def test_out_tensors_grow_and_lists_of_tensors_work():
    out = torch.empty(0, device=CARD)
    torch.add(torch.ones(3, device=CARD), 1, out=out)
    equal(out, torch.full((3,), 2.0))
    listed = torch._foreach_add([torch.ones(2, device=CARD), torch.ones(3, device=CARD)], 1)
    equal(listed[1], torch.full((3,), 2.0))
    torch._foreach_mul_(listed, 3)
    equal(listed[0], torch.full((2,), 6.0))


def test_a_tensor_is_printed_and_read_as_any():
    x = torch.randn(3, device=CARD)
    assert "device='npu:0'" in repr(x) and f"{x[0]:.3f}"
    assert x.tolist() == x.cpu().tolist() and len(x) == 3
    assert x.is_npu and not x.is_cpu and not x.is_cuda and x.get_device() == 0
    assert x.type() == "torch.npu.FloatTensor"
    with pytest.raises(TypeError, match="npu:0 device type tensor to numpy"):
        x.numpy()


def test_copies_between_devices_and_dtypes():
    x = torch.randn(3, device=CARD)
    y = torch.empty(3)
    assert torch.equal(y.copy_(x), x.cpu())
    assert torch.equal(x.to("npu:1", dtype=torch.int32).cpu(), x.cpu().int())
    assert x.to("cpu", torch.float64, non_blocking=True).dtype == torch.float64
    assert torch.ones(3).pin_memory().is_pinned() and not torch.ones(3).is_pinned()


def test_dispatch_modes_and_fake_tensors_see_the_card():
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            seen.append(op._schema.name)
            return op(*args, **(kwargs or {}))

    with Mode():
        torch.ones(2, device=CARD) + 1
    assert "aten::add" in seen
    with FakeTensorMode():
        y = torch.nn.Linear(3, 4, device=CARD)(torch.empty(2, 3, device=CARD))
        assert y.shape == (2, 4) and y.device.type == "npu"
    with torch.device("npu:1"):
        assert torch.zeros(2).device == torch.device("npu:1")
