"""Processes: children see the cards, variables narrow them, forks are refused, ranks talk."""

from __future__ import annotations

import multiprocessing

import pytest
import torch
from tests.emulated.processes import python

SHOW = "import torch; print(torch.npu.is_available(), torch.npu.device_count())"


def in_child(queue):
    queue.put((torch.ones(2, device="npu:1") + 1).cpu().tolist())


def test_a_spawned_child_sees_the_cards_unaided():
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=in_child, args=(queue,))
    child.start()
    assert queue.get(timeout=240) == [2.0, 2.0]
    child.join(60)
    assert child.exitcode == 0


FORK = """
import multiprocessing, sys, torch
if sys.argv[1] == "used":
    torch.ones(1, device="npu")
def work(queue):
    try:
        queue.put(str(torch.ones(2, device="npu").sum().item()))
    except RuntimeError as error:
        queue.put(str(error))
context = multiprocessing.get_context("fork")
queue = context.Queue()
child = context.Process(target=work, args=(queue,))
child.start()
print(queue.get())
child.join()
"""


@pytest.mark.parametrize(
    ("parent", "told"),
    [("used", "Cannot re-initialize NPU in forked subprocess"), ("unused", "2.0")],
)
def test_a_fork_works_only_before_a_device_is_used(parent, told):
    assert python(FORK, parent).stdout.startswith(told)


@pytest.mark.parametrize(
    ("visible", "count"),
    [("1", 1), ("0,1", 2), ("0,9", 1), ("1, 0", 1), ("", 0), ("9", 0)],
)
def test_the_runtimes_variable_narrows_the_cards(visible, count):
    told = python(SHOW, JUMAR_EMULATE_NPU="2", ASCEND_RT_VISIBLE_DEVICES=visible)
    assert told.stdout.split() == [str(count > 0), str(count)]


def test_the_pages_smoke_test():
    told = python(
        "import torch, torch_npu; print(torch_npu.npu.is_available(), torch.npu.device_count())",
        JUMAR_EMULATE_NPU="8",
    )
    assert told.stdout.split() == ["True", "8"]
    assert "8 Ascend910B1" in told.stderr and told.stderr.count("EmulatedWarning") == 1


def test_a_chip_without_bfloat16_refuses_to_compute_in_it():
    told = python(
        "import torch\n"
        "x = torch.ones(2, 2, dtype=torch.bfloat16).to('npu')\n"
        "print(torch.npu.get_device_name(), torch.npu.is_bf16_supported())\n"
        "(x.half() @ x.half()).cpu()\n"
        "x @ x",
        JUMAR_EMULATE_NPU="1,chip=310P",
    )
    assert told.stdout.strip() == "Ascend310P3 (emulated) False"
    assert "161002" in told.stderr and "DT_BFLOAT16" in told.stderr


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("many", "is no number of cards"),
        ("2,chip=910X", "No emulated chip is called '910X'"),
        ("2,memry=3", "has no setting 'memry'"),
    ],
)
def test_a_value_that_is_not_valid_stops_the_process(value, told):
    ran = python("import torch", JUMAR_EMULATE_NPU=value)
    assert ran.returncode == 1 and told in ran.stderr


def test_it_never_runs_beside_a_real_torch_npu(tmp_path):
    (tmp_path / "torch_npu.py").write_text("")
    ran = python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch", JUMAR_EMULATE_NPU="2"
    )
    assert ran.returncode == 1 and "never run beside it" in ran.stderr


RANK = """
import sys, torch, torch.distributed as dist
rank = int(sys.argv[1])
torch.npu.set_device(rank)
dist.init_process_group("hccl", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=2)
x = torch.full((3,), rank + 1.0, device="npu")
dist.all_reduce(x)
y = torch.full((2,), float(rank), device="npu")
dist.broadcast(y, src=1)
parts = [torch.empty(2, device="npu") for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank), device="npu"))
whole = torch.empty(4, device="npu")
dist.all_gather_into_tensor(whole, torch.full((2,), float(rank), device="npu"))
dist.barrier()
group = dist.new_group([0, 1])
z = torch.ones(1, device="npu")
dist.all_reduce(z, group=group)
dist.destroy_process_group(group)
print(dist.get_backend(), x.device, x.tolist(), y.tolist())
print([one.tolist() for one in parts], whole.tolist(), z.item())
dist.destroy_process_group()
"""


def test_two_ranks_talk_through_hccl(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    store = str(tmp_path / "store")
    with ThreadPoolExecutor(2) as pool:
        ranks = list(pool.map(lambda rank: python(RANK, str(rank), store), range(2)))
    for rank, one in enumerate(ranks):
        assert one.stdout.strip() == (
            f"hccl npu:{rank} [3.0, 3.0, 3.0] [1.0, 1.0]\n"
            "[[0.0, 0.0], [1.0, 1.0]] [0.0, 0.0, 1.0, 1.0] 2.0"
        ), one.stderr
