"""Connections to Ray: what a local one leaves behind, and one sentence for each reason why a cluster cannot be used."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import ray

from support.cluster import driver
from support.cluster.processes import is_open, list_descendants, read_command, read_name, runs, wait_for_end
from support.machine.host_processes import wait_until
from turnsmith.cluster.actor import choose_interface
from turnsmith.cluster.connection import (
    choose_token,
    connect,
    disconnect,
    explain,
    join_cluster,
    own_daemon,
    restore,
    start_local,
)
from turnsmith.cluster.keeper import list_children
from turnsmith.cluster.network import find_interface, is_closed, read_address
from turnsmith.config import extras
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.runs.temporary import find_place

TESTS = Path(__file__).parents[1]


def start_driver(logs):
    """Start a driver with its own Ray, wait until its ranks run; return its process and the address of its Ray."""
    process = subprocess.Popen(
        [sys.executable, driver.__file__, str(logs)],
        env=os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    return process, process.stdout.readline().strip()


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_local_ray_ends_with_its_killed_driver_and_leaves_nothing(tmp_path):
    process, address = start_driver(tmp_path)
    with process:
        assert is_open(address)
        processes = list_descendants(process.pid)
        assert len(processes) >= 5  # the keeper, two daemons of Ray, two ranks
        [folder] = [each for each in find_place().glob("ray-*") if any(str(each) in read_command(p) for p in processes)]
        # A rank that hangs does not end by itself when its daemon is gone.
        [rank, _] = [each for each in processes if "ray::RankActor" in read_command(each)]
        os.kill(rank, signal.SIGSTOP)
        process.send_signal(signal.SIGKILL)
        wait_for_end(processes, limit_s=10.0)
    assert not is_open(address)
    assert not folder.exists()


def test_the_keeper_finds_its_children_while_threads_end():
    has_ended = threading.Event()

    def start_threads():
        while not has_ended.is_set():
            with ThreadPoolExecutor(20) as threads:
                list(threads.map(time.sleep, [0.001] * 20))

    churn = threading.Thread(target=start_threads)
    churn.start()
    with subprocess.Popen(["sleep", "60"]) as child:
        try:
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline:
                assert child.pid in list_children()
        finally:
            child.kill()
            has_ended.set()
            churn.join()


def test_an_address_without_a_cluster_is_refused():
    with pytest.raises(
        UsageError, match=r"^no Ray cluster answers at cluster\.address 127\.0\.0\.1:1 .*`ray start --head`"
    ):
        join_cluster("127.0.0.1:1")


JOIN = """
import sys, ray
from turnsmith.cluster.connection import choose_token, join_cluster
from turnsmith.errors import UsageError
if sys.argv[2]:
    ray.__version__ = sys.argv[2]
try:
    choose_token(is_local=False)
    join_cluster(sys.argv[1])
except UsageError as error:
    print(error)
else:
    print("joined")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("version", "token", "message"),
    [
        ("", "", "joined"),
        ("2.1.0", "", "runs Ray {ray} and Python {python}, and this process Ray 2.1.0 and Python {python}"),
        ("", "f" * 64, "refused this process's token: export its token in RAY_AUTH_TOKEN"),
    ],
)
def test_a_cluster_of_another_version_or_token_is_refused_in_one_sentence(local_ray, version, token, message):
    address = ray.get_runtime_context().gcs_address
    environment = os.environ | ({"RAY_AUTH_TOKEN": token} if token else {})
    command = [sys.executable, "-c", JOIN, address, version]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    python = ".".join(map(str, sys.version_info[:3]))
    [line] = result.stdout.strip().splitlines()
    assert message.format(ray=ray.__version__, python=python) in line


@pytest.mark.slow
def test_a_cluster_whose_daemon_on_this_machine_has_died_is_refused_in_one_sentence(tmp_path):
    with ExitStack() as cluster:
        choose_token(is_local=True)
        address = start_local(cluster, tmp_path, "5,6")
        connect(address, tmp_path)
        cluster.callback(disconnect)
        [daemon] = [each for each in list_descendants(os.getpid()) if read_name(each) == "raylet"]
        assert "CUDA_VISIBLE_DEVICES=5,6" in Path(f"/proc/{daemon}/environ").read_text().split("\0")
        restore()
        assert ray.is_initialized() and runs(daemon)
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: is_closed(own_daemon()))
        with pytest.raises(UsageError, match=r"the Ray cluster at cluster\.address .*`ray \w+") as caught:
            restore()
        assert "\n" not in str(caught.value) and not ray.is_initialized()


def test_another_python_is_named():
    theirs = "The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.12.1\n"
    own = "This process was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
    error = explain(RuntimeError(f"Version mismatch: {theirs}{own}"), "head:6379")
    assert "head:6379 runs Ray 2.60.0 and Python 3.12.1, and this process Ray 2.60.0 and Python 3.11.7: use" in error


def test_ray_that_is_not_installed_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"needs ray: install it by `pip install 'turnsmith\[cluster\]'`"):
        require("ray", subject="trainer.kind fsdp")


def test_the_interface_of_an_address_is_found():
    assert read_address(find_interface("127.0.0.1")) == "127.0.0.1"
    assert find_interface("203.0.113.7") is None


def test_a_named_interface_is_kept(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "chosen0")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "")
    monkeypatch.delenv("NCCL_SOCKET_IFNAME")
    choose_interface("127.0.0.1")
    names = os.environ["GLOO_SOCKET_IFNAME"], os.environ["NCCL_SOCKET_IFNAME"]
    assert names == ("chosen0", find_interface("127.0.0.1"))
