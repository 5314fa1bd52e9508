"""All ranks decide the same, or none computes."""

from __future__ import annotations

import pytest
import torch.multiprocessing as multiprocessing

from jumar.contracts.errors import RunFailed
from jumar.operators.agreement import agree, digest

SAME = {"rms_norm": "torch_npu", "silu_and_mul": ["flag_gems", "reference"]}


OTHER = {**SAME, "rms_norm": "reference", "moe_sum": "reference"}


def rank(number, folder, answers):
    """What this rank is told when all decided the same, and when rank 1 did not."""
    from torch import distributed

    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/ranks", rank=number, world_size=2
    )
    told = [agree(dict(reversed(SAME.items())) if number else SAME)]
    try:
        agree(OTHER if number else SAME)
    except RunFailed as error:
        told.append(str(error))
    answers[number] = told
    distributed.destroy_process_group()


def test_ranks_that_decided_the_same_go_on_and_others_all_stop_and_name_the_operator(tmp_path):
    with multiprocessing.get_context("spawn").Manager() as manager:
        answers = manager.dict()
        multiprocessing.spawn(rank, (tmp_path, answers), nprocs=2)
        agreed, told = answers[0]
        assert answers[1] == answers[0]
    assert agreed == digest(SAME)
    assert told == (
        "Ranks disagree about who computes moe_sum (rank 0 nobody, rank 1 reference); "
        "rms_norm (rank 0 torch_npu, rank 1 reference)."
    )


def test_alone_there_is_nobody_to_disagree_with():
    assert agree(SAME) == digest(SAME)


@pytest.mark.parametrize(
    "other", [{**SAME, "rms_norm": "reference"}, {"rms_norm": "torch_npu"}, {}]
)
def test_a_digest_tells_decisions_apart(other):
    assert digest(other) != digest(SAME)
    assert digest(dict(reversed(SAME.items()))) == digest(SAME)
