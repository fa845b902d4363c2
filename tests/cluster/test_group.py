"""Groups of ranks: calls, streams, reports, and what happens when a rank fails, dies or hangs."""

import asyncio
import os
import signal
import time

import numpy as np
import pytest

from support.cluster.processes import wait_for_end
from support.cluster.workers import Adder
from turnsmith.cluster.group import RankGroup
from turnsmith.errors import RanksLost, TrainingError, UsageError

pytestmark = pytest.mark.slow

NOTICE_S = 5.0
"""Seconds within which the death of a rank must be noticed."""


@pytest.fixture(scope="module")
def shared(local_ray, tmp_path_factory):
    """Group of two ranks for all tests of this file."""
    group = RankGroup(Adder, 2, "cpu", tmp_path_factory.mktemp("ranks"))
    yield group
    group.kill()


@pytest.fixture
async def group(shared):
    if not shared.is_running:
        await shared.start()
    return shared


async def test_all_ranks_compute_together_and_each_returns_its_result(group):
    before = (await group.call("add", 0))[0]
    after = await group.call("add", 1)
    # Rank r adds 1 + r, so two ranks add 3; the first call has added 1.
    assert after == [[value + 3 for value in before]] * 2
    assert (await group.call("add_later", 0))[1] == [value + 4 for value in before]
    assert await group.read("num_ranks") == 2


async def test_a_stream_yields_what_rank_0_yields(group):
    items = list(group.stream("count", 4))
    assert [item.item() for item in items] == [0.0, 2.0, 4.0, 6.0]


async def test_large_arguments_are_stored_once(group):
    array = np.zeros(4_000_000)
    assert await group.call("measure", array) == [array.nbytes] * 2


async def test_ranks_report_during_a_call(group, tmp_path):
    call = asyncio.create_task(group.call("wait_for_file", str(tmp_path / "go")))
    while [report.method for report in await group.report()] != ["wait_for_file"] * 2:
        await asyncio.sleep(0.05)
    reports = await group.report()
    assert [report.rank for report in reports] == [0, 1] and len({report.process_id for report in reports}) == 2
    assert all(report.elapsed_s > 0 for report in reports)
    (tmp_path / "go").touch()
    assert len(await call) == 2
    assert [report.method for report in await group.report()] == ["", ""]


async def test_output_of_a_rank_goes_to_its_log(group, shared):
    await group.call("say", "a line for the log")
    for rank in (0, 1):
        log = (shared._logs / f"rank-{rank}.log").read_text()
        assert f"rank {rank} of 2" in log and "a line for the log\na line for the log by descriptor\n" in log


@pytest.mark.parametrize(("method", "kind"), [("refuse", TrainingError), ("fail", KeyError)])
async def test_an_error_of_all_ranks_is_raised_and_the_group_goes_on(group, method, kind):
    with pytest.raises(kind):
        await group.call(method)
    assert group.is_running and len(await group.call("add", 1)) == 2


async def test_a_rank_that_fails_alone_ends_the_group(group):
    with pytest.raises(RanksLost, match=r"rank 1 was lost during fail_alone .*ValueError: only here.*rank-1\.log"):
        await group.call("fail_alone")
    assert not group.is_running
    with pytest.raises(RanksLost, match="not running"):
        await group.call("add", 1)


@pytest.mark.parametrize("victim", [0, 1])
async def test_the_death_of_a_rank_is_noticed_at_once_and_ends_the_group(group, victim):
    processes = [report.process_id for report in await group.report()]
    started = time.monotonic()
    with pytest.raises(RanksLost, match=f"rank {victim} was lost during die .*died"):
        await group.call("die", victim)
    assert time.monotonic() - started < NOTICE_S
    wait_for_end(processes)


async def test_a_group_starts_anew_with_another_number_of_ranks(shared):
    await shared.start(1)
    assert await shared.call("add", 1) == [[1.0] * 3]
    await shared.start(2)
    assert await shared.call("add", 1) == [[3.0] * 3] * 2


async def test_a_rank_that_does_not_answer_counts_as_lost(group, monkeypatch):
    monkeypatch.setattr("turnsmith.cluster.group.CHECK_EVERY_S", 0.5)
    monkeypatch.setattr("turnsmith.cluster.group.SILENCE_S", 1.0)
    process = (await group.report())[1].process_id
    with pytest.raises(RanksLost, match="has not answered"):
        await group.call("die", 1, signal.SIGSTOP)
    assert not group.is_running
    os.kill(process, signal.SIGCONT)
    wait_for_end([process])


def test_more_ranks_than_gpus_are_refused(local_ray, tmp_path):
    with pytest.raises(UsageError, match=r"trainer\.num_ranks is 3, and the cluster has 0 GPUs: "):
        RankGroup(Adder, 3, "cuda", tmp_path)
