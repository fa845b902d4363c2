"""vLLM servers that Ray actors start on the nodes of a cluster; the servers are stand-ins without a model."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from support.cluster.processes import list_descendants, read_command, wait_for_end
from support.engines.vllm_python import ask, assert_sampled_by, count_turns, want, write_vllm_python
from support.machine.host_processes import wait_for
from support.models.small_models import make_model
from turnsmith.cluster import placement, servers
from turnsmith.cluster.placement import check_servers, list_places
from turnsmith.cluster.servers import ServerActor, make_place
from turnsmith.config import VllmConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.vllm.engine import open_vllm
from turnsmith.engines.vllm.inside.turnsmith_vllm.guard import VARIABLE
from turnsmith.errors import UsageError

TESTS = Path(__file__).parents[1]


@pytest.fixture
def base(tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def open_engine(local_ray, base, tmp_path):
    """Open an engine whose servers are placed by Ray."""
    opened = []

    def open_engine(num_gpus=0, **changes):
        config = VllmConfig(**{"python": write_vllm_python(tmp_path)} | changes)
        opened.append(open_vllm(config, want(base), tmp_path / "logs", make_place(num_gpus, is_shared=False)))
        return opened[-1]

    yield open_engine
    for engine in opened:
        engine.close()


def find_actors():
    """Map the process id of each actor with a server, below this process, to the ids of the server's processes."""
    below = list_descendants(os.getpid())
    actors = [process for process in below if "ray::ServerActor" in read_command(process)]
    return {actor: list_descendants(actor) for actor in actors}


def read_gpus(process):
    entries = Path(f"/proc/{process}/environ").read_text().split("\0")
    return next(entry.partition("=")[2] for entry in entries if entry.startswith("CUDA_VISIBLE_DEVICES="))


# The first test of this file, because it starts a Ray of its own.
@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.timeout(1_200)
def test_servers_have_gpus_of_their_own_and_end_with_their_killed_driver(base, tmp_path):
    code = f"""
import sys, time
from pathlib import Path
from support.engines.vllm_python import want, write_vllm_python
from turnsmith.cluster.connection import connect
from turnsmith.cluster.servers import make_place
from turnsmith.config import VllmConfig
from turnsmith.engines.vllm.engine import open_vllm
folder = Path({str(tmp_path)!r})
connect("", folder / "logs")
config = VllmConfig(python=write_vllm_python(folder), replicas=2)
engine = open_vllm(config, want(folder / "base"), folder / "logs", make_place(2, is_shared=False))
print("ready", flush=True)
time.sleep(600)
"""
    # Ray believes that this machine has four GPUs.
    pretended = {"RAY_OVERRIDE_RESOURCES": '{"GPU": 4}'}
    environment = os.environ | pretended | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout.readline() == "ready\n"
        processes = list_descendants(driver.pid)
        started = [each for each in processes if "turnsmith_vllm.server" in read_command(each)]
        assert sorted(map(read_gpus, started)) == ["0,1", "0,1", "2,3", "2,3"]  # each is a watcher and a server
        driver.kill()
        wait_for_end(processes)


@pytest.mark.slow
@pytest.mark.timeout(1_200)
async def test_servers_of_actors_sample_take_weights_and_are_restarted(open_engine, tmp_path):
    engine = open_engine(replicas=2)
    answers = await asyncio.gather(*(engine.generate(ask(f"e{number}")) for number in range(4)))
    assert_sampled_by(make_model(), *answers)
    assert {path.name for path in (tmp_path / "logs").iterdir()} >= {"vllm-0.log", "vllm-1.log"}
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    actors = find_actors()
    assert len(actors) == 2 and all(actors.values())
    # A server dies in one replica, and the actor in the other.
    (first, (watcher, *_)), (second, processes) = actors.items()
    turns = [asyncio.create_task(engine.generate(ask(f"e{number}", num=100))) for number in range(4)]
    await wait_for(lambda: count_turns(tmp_path / "faults") == 8)
    os.kill(watcher, signal.SIGKILL)
    os.kill(second, signal.SIGKILL)
    answers = await asyncio.gather(*turns)
    assert {answer.policy_version for answer in answers} == {1}
    assert_sampled_by(make_model(seed=1), *answers)
    wait_for_end([first, second, *actors[first], *processes])
    client = engine._replicas[0]._client
    assert httpx2.post(f"{client.address}/sleep?level=1").status_code == 401
    assert client.call("GET", "/health")
    again = find_actors()
    assert len(again) == 2
    engine.close()
    wait_for_end([*again, *(process for below in again.values() for process in below)])


@pytest.mark.slow
def test_servers_that_cannot_start_are_refused_in_one_sentence(open_engine, monkeypatch):
    with pytest.raises(UsageError, match="has no vLLM: give a Python"):
        open_engine(python=sys.executable)
    with pytest.raises(UsageError, match=r"vLLM ended while it started: .*its log is .*vllm-0\.log"):
        open_engine(arguments=["--dtype"])
    monkeypatch.setattr(servers, "PLACE_S", 1.0)
    with pytest.raises(UsageError, match="a vLLM server found no place on the cluster in 1 s"):
        open_engine(num_gpus=8)


@pytest.fixture
def nodes(monkeypatch):
    """Pretend that the cluster has two nodes with 4 GPUs and one with 2."""
    listed = [
        {"NodeID": name, "Resources": {"CPU": 8.0, "GPU": count}}
        for name, count in [("b", 4.0), ("a", 4.0), ("c", 2.0)]
    ]
    monkeypatch.setattr(placement, "list_nodes", lambda: listed)


def test_servers_take_places_on_all_nodes_in_turn(nodes):
    assert list_places(2) == [("a", [0, 1]), ("b", [0, 1]), ("c", [0, 1]), ("a", [2, 3]), ("b", [2, 3])]
    assert list_places(4) == [("a", [0, 1, 2, 3]), ("b", [0, 1, 2, 3])]
    assert list_places(0) == [("a", []), ("b", []), ("c", [])]


def test_more_gpus_than_the_cluster_has_are_refused(nodes):
    check_servers(2, 4, 2, is_shared=False)
    check_servers(2, 4, 10, is_shared=True)
    with pytest.raises(
        UsageError, match=r"replicas is 3, and the cluster has room for 2 servers with 4 GPUs of one node"
    ):
        check_servers(3, 4, 10, is_shared=True)
    with pytest.raises(UsageError, match=r"room for 0 servers with 8 GPUs"):
        check_servers(1, 8, 1, is_shared=False)
    with pytest.raises(
        UsageError, match=r"needs a rank on each GPU, and the cluster has 10 GPUs for trainer\.num_ranks 8"
    ):
        check_servers(2, 4, 8, is_shared=True)
    with pytest.raises(
        UsageError, match=r"3 ranks and 2 servers with 4 GPUs each need 11 GPUs, and the cluster has 10"
    ):
        check_servers(2, 4, 3, is_shared=False)


@pytest.mark.parametrize(("visible", "expected"), [("", "2,3"), ("4,5,6,7", "6,7")])
def test_a_shared_server_sees_its_gpus_among_those_of_its_node(monkeypatch, visible, expected):
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    ServerActor("key", [2, 3])
    assert (os.environ["CUDA_VISIBLE_DEVICES"], os.environ[VARIABLE]) == (expected, "key")
