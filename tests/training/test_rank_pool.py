"""Tests of the pool of ranks that other tests use."""

import os
import signal
import time
from functools import partial

import pytest
import torch
from torch import distributed

from support.ranks import RankDied, RanksTimedOut

pytestmark = pytest.mark.slow


def add_ranks(offset):
    total = torch.tensor([distributed.get_rank() + offset])
    distributed.all_reduce(total)
    return os.getpid(), total.item()


def fail_on(rank):
    if distributed.get_rank() == rank:
        raise ValueError(f"fault of rank {rank}")
    distributed.barrier()


def die_on(rank):
    if distributed.get_rank() == rank:
        os.kill(os.getpid(), signal.SIGKILL)
    distributed.barrier()


def hang_on(rank):
    if distributed.get_rank() == rank:
        time.sleep(1000)


def test_processes_are_reused_and_groups_are_new(ranks):
    first, second = ranks(2, add_ranks, 10), ranks(2, add_ranks, 20)
    assert [total for _, total in first] == [21, 21] and [total for _, total in second] == [41, 41]
    assert [process for process, _ in first] == [process for process, _ in second]
    assert [total for _, total in ranks(4, add_ranks, 0)] == [6] * 4
    assert [total for _, total in ranks(1, add_ranks, 5)] == [5]


def test_an_exception_of_a_rank_is_raised_with_its_traceback(ranks):
    with pytest.raises(ValueError, match="fault of rank 1") as caught:
        ranks(2, fail_on, 1)
    assert "on rank 1 of 2" in caught.value.__notes__[0] and "in fail_on" in caught.value.__notes__[0]
    assert [total for _, total in ranks(2, add_ranks, 0)] == [1, 1]


def test_a_dead_or_hanging_rank_fails_the_call_and_new_processes_start(ranks):
    with pytest.raises(RankDied, match="rank 0 ended with exit code -9"):
        ranks(2, die_on, 0)
    with pytest.raises(RanksTimedOut, match=r"ranks \[(0, )?1\] of 2 take more than 1 s"):
        ranks(2, hang_on, 1, limit_s=1.0)
    assert [total for _, total in ranks(2, partial(add_ranks, 0))] == [1, 1]
