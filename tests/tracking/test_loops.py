import asyncio

import pytest

from support.episodes.silence import Silence
from turnsmith.tracking.loops import follow, for_each


class Recorder(Silence):
    """Progress that records totals and notes."""

    def __init__(self):
        self.reported = []

    def work(self, label, total, num_done=0):
        self.reported.append((label, total, num_done))
        return super().work(label, total, num_done)

    def advance(self, num=1, note=""):
        self.reported.append((num, note))


async def test_results_are_in_order_and_at_most_two_items_are_worked_on_at_a_time():
    progress, running, most = Recorder(), set(), []

    async def work(number):
        running.add(number)
        most.append(len(running))
        await asyncio.sleep(0.001 * (5 - number))
        running.remove(number)
        return number * 10

    results = await for_each(range(5), work, progress, "counting", num_workers=2, num_done=3, describe=str)
    assert results == [0, 10, 20, 30, 40] and max(most) == 2
    assert progress.reported[0] == ("counting", 8, 3)
    assert sorted(progress.reported[1:]) == [(1, str(number)) for number in (0, 10, 20, 30, 40)]


async def test_an_error_cancels_the_other_items():
    done = []

    async def work(number):
        if number == 1:
            raise ValueError("broken")
        await asyncio.sleep(60)
        done.append(number)

    with pytest.raises(ExceptionGroup):
        await for_each([0, 1, 2], work, Silence(), "counting")
    assert not done


def test_a_followed_loop_reports_every_item_once(monkeypatch):
    progress = Recorder()
    assert list(follow("abc", progress, "reading", 3)) == ["a", "b", "c"]
    assert progress.reported[0] == ("reading", 3, 0) and sum(num for num, _ in progress.reported[1:]) == 3
    monkeypatch.setattr("turnsmith.tracking.loops.INTERVAL_S", 0)
    progress = Recorder()
    assert list(follow("ab", progress, "reading", 2, describe=str.upper)) == ["a", "b"]
    assert progress.reported[1:] == [(1, "A"), (1, "B"), (0, "")]
