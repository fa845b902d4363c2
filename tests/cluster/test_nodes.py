"""A cluster of two nodes, of which one is killed: training continues on the other."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import ray

from support.cluster.faults import NUM_STEPS, FragileTraining
from support.cluster.processes import wait_for_end
from turnsmith.cluster.connection import connect, disconnect
from turnsmith.cluster.keeper import MAX_ATTEMPTS
from turnsmith.cluster.placement import list_nodes

pytestmark = [pytest.mark.slow, pytest.mark.ranks, pytest.mark.timeout(1_200)]


@pytest.fixture
def two_nodes(tmp_path, monkeypatch):
    """Start a local Ray with one CPU, and join it as a second node with one CPU."""
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 1}')
    connect("", tmp_path)
    node = join(ray.get_runtime_context().gcs_address, tmp_path / "node.log")
    yield
    disconnect()
    node.terminate()
    node.wait()


def join(address: str, log: Path) -> "subprocess.Popen[bytes]":
    """Start a node; return its process, which ends when Ray's daemon ends."""
    command = [Path(sys.executable).with_name("ray"), "start", "--block", "--address", address]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for _ in range(MAX_ATTEMPTS):
        with log.open("ab") as output:
            node = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        while node.poll() is None:
            if len(list_nodes()) == 2:
                return node
            time.sleep(0.2)
    raise AssertionError(log.read_text())


@pytest.fixture
def training(two_nodes, tmp_path):
    training = FragileTraining(tmp_path)
    yield training
    training.trainer.close()


async def test_training_continues_on_the_nodes_that_are_left(training):
    processes = [report.process_id for report in await training.group.report()]
    await training.trainer.load(training.initial)
    losses = await training.train([0])
    training.ask("before the backward pass", "node")
    losses += await training.train(range(1, NUM_STEPS))
    assert training.read_notice().startswith("Ray on the machine ")
    assert "a node is gone: training continues on 1 of 2 ranks" in [line for _, line in training.progress.lines]
    np.testing.assert_allclose(losses, training.unbroken, rtol=1e-6, atol=1e-6)
    wait_for_end(processes, 10.0)
