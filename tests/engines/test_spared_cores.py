"""Spared cores: the engine leaves cores to other processes only while these compute."""

import time

import pytest
import torch

from turnsmith.engines.torch import spared_cores
from turnsmith.engines.torch.spared_cores import OtherLoad, read_times, sparing


@pytest.fixture
def clock(monkeypatch, tmp_path):
    """Return a function that sets the wall clock, the time of all processes and that of this one, in seconds."""
    stat = tmp_path / "stat"
    monkeypatch.setattr(spared_cores, "STAT", stat)
    now = [0.0, 0.0, 0.0]

    def move(wall_s, busy_s, own_s):
        now[:] = now[0] + wall_s, now[1] + busy_s, now[2] + own_s
        stat.write_text(f"cpu  {int(now[1] * 100)} 0 0 0 0 0\n")

    move(100.0, 50.0, 10.0)
    monkeypatch.setattr(spared_cores, "read_times", lambda: tuple(now))
    monkeypatch.setattr(spared_cores.time, "monotonic", lambda: now[0])
    return move


def test_cores_are_spared_until_others_were_seen_idle_and_while_they_compute(clock):
    load = OtherLoad()
    assert load.is_high
    clock(2.0, 2.2, 2.0)
    assert not load.is_high
    clock(2.0, 3.2, 2.0)
    assert load.is_high


def test_within_an_interval_the_last_measurement_holds(clock):
    load = OtherLoad()
    clock(0.9, 0.9, 0.9)
    assert load.is_high
    clock(0.2, 0.2, 0.2)
    assert not load.is_high


def test_without_a_measurement_cores_are_spared(clock, monkeypatch, tmp_path):
    monkeypatch.setattr(spared_cores, "STAT", tmp_path / "missing")
    load = OtherLoad()
    clock(5.0, 0.0, 0.0)
    assert load.is_high


def test_this_process_counts_as_its_own():
    before, until = read_times(), time.process_time() + 0.2
    while time.process_time() < until:
        pass
    wall, busy, own = (new - old for new, old in zip(read_times(), before, strict=True))
    assert own >= 0.15 and wall >= 0.15 and busy >= own - 0.1


def test_threads_are_restored():
    before = torch.get_num_threads()
    with sparing(before + 3):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
