"""Connection of this process to a Ray cluster: the one at an address, or a local one that ends with this process.

Ray allows one connection per process, so this module holds it.
"""

import atexit
import json
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from turnsmith.cluster.network import ANSWER_S, Address, is_closed
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.runs.temporary import temporary_folder

OBJECT_STORE_BYTES = 2**30
"""Memory of a local Ray for arguments and results of calls; what exceeds it is written to disk."""
FAILURE_DETECTION = {"health_check_period_ms": 1_000, "health_check_initial_delay_ms": 5_000}
"""Settings of a local Ray by which a dead node is noticed after five seconds instead of fifteen."""
PRIORITY = {"RAY_worker_niceness": "0"}
"""Environment variable that gives ranks the priority of this process; Ray would lower it by 15."""
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "RAY_DEDUP_LOGS": "0"}
"""Environment variables that keep Ray from reporting usage and from printing notices."""


@dataclass
class _Connection:
    """Cluster to which this process is connected, and what to release at the end."""

    address: str | None = None
    """Address as configured: empty for a local Ray, None without a connection."""
    renew: Callable[[], None] = lambda: None
    """Function that connects in the same way again."""
    daemon: Address = ("", 0)
    """Address of Ray's daemon on this machine."""
    resources: ExitStack | None = None


_current = _Connection()


def connect(address: str, logs: Path, gpus: str | None = None) -> None:
    """Connect to the cluster at `HOST:PORT`, or to a local Ray if `address` is empty, which is started on the first call.

    The log of a local Ray goes to the folder `logs`. It uses all GPUs, or those in `gpus`, as in CUDA_VISIBLE_DEVICES. Does
    nothing if the connection exists. Raises UsageError.
    """
    require("ray", subject="a trainer with ranks")
    if _current.address == address:
        return
    disconnect()
    with ExitStack() as resources:
        os.environ |= QUIET | os.environ
        choose_token(is_local=not address)
        _current.daemon = join_cluster(address or start_local(resources, logs, gpus))
        _current.renew = partial(connect, address, logs, gpus)
        _current.address, _current.resources = address, resources.pop_all()


def own_daemon() -> Address:
    """Return the address of Ray's daemon on this machine."""
    return _current.daemon


def restore() -> None:
    """Connect again if Ray's daemon on this machine has ended. A local Ray is started anew. Raises UsageError."""
    if _current.address is not None and is_closed(_current.daemon):
        disconnect()
        _current.renew()


def disconnect() -> None:
    """Disconnect from Ray, and end a local one with all its processes. May be called twice."""
    resources, _current.address, _current.resources = _current.resources, None, None
    if resources:
        import ray

        ray.shutdown()
        resources.close()


atexit.register(disconnect)


def choose_token(*, is_local: bool) -> None:
    """Choose how this process authenticates: by a given token, or by a new one that only the processes of a local Ray know."""
    has_file = Path("~/.ray/auth_token").expanduser().is_file() and not is_local
    if not has_file and not {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys():
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex()


def start_local(resources: ExitStack, logs: Path, gpus: str | None) -> str:
    """Start a local Ray in a process that ends with this one; return its address. Raises UsageError."""
    folder = resources.enter_context(temporary_folder("ray"))
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / "ray.log"
    options = {
        "_temp_dir": str(folder),
        "object_store_memory": OBJECT_STORE_BYTES,
        "_system_config": FAILURE_DETECTION,
    }
    with log.open("ab") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "turnsmith.cluster.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
            start_new_session=True,
            # Ranks must find the modules that this process finds, for example an algorithm in the working directory.
            env=os.environ
            | PRIORITY
            | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            | ({} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus}),
        )
    resources.callback(end, keeper)
    assert keeper.stdin and keeper.stdout
    keeper.stdin.write(json.dumps(options) + "\n")
    keeper.stdin.flush()
    if not (address := keeper.stdout.readline().strip()):
        raise UsageError(f"Ray did not start on this machine: {last_line(log)}: see {log}")
    return address


def end(keeper: "subprocess.Popen[str]") -> None:
    """Close the standard input of a keeper, and wait until it has ended Ray's processes."""
    with suppress(OSError):
        keeper.communicate()


def last_line(log: Path) -> str:
    """Return the last line of a log that is not blank."""
    lines = log.read_text("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def join_cluster(address: str) -> Address:
    """Connect this process to a running cluster; return the address of Ray's daemon on this machine.

    Raises UsageError in one sentence for each known cause.
    """
    check_answer(address)
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        ray.shutdown()
        raise UsageError(explain(error, address)) from error
    own = ray.get_runtime_context().get_node_id()
    return next((node["NodeManagerAddress"], node["NodeManagerPort"]) for node in ray.nodes() if node["NodeID"] == own)


def check_answer(address: str) -> None:
    """Raise UsageError if nothing accepts connections at an address. Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_S).close()
    except (OSError, ValueError) as error:
        raise UsageError(
            f"no Ray cluster answers at cluster.address {address} ({error}): start one by `ray start --head`, or remove "
            "cluster.address to use this machine only"
        ) from None


def explain(error: BaseException, address: str) -> str:
    """Return one sentence for an error of `ray.init`: cause and remedy."""
    chain = [error]
    while cause := chain[-1].__cause__ or chain[-1].__context__:
        chain.append(cause)
    text = " ".join(str(each) for each in chain)
    place = f"the Ray cluster at cluster.address {address}"
    if len(versions := re.findall(r"(Ray|Python): (\S+)", text)) >= 4:
        (_, ray), (_, python), (_, own_ray), (_, own_python) = versions[:4]
        return (
            f"{place} runs Ray {ray} and Python {python}, and this process Ray {own_ray} and Python {own_python}: use an "
            "environment with the same versions on all nodes"
        )
    if re.search("auth|token", text, re.IGNORECASE):
        return f"{place} refused this process's token: export its token in RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH"
    if "expects this IP address" in text or "find a node" in text:
        return (
            f"this machine is no node of {place}: run Turnsmith on one, or join by `ray start --address={address}` here"
        )
    return f"{place} cannot be used: {str(error).strip().partition(chr(10))[0]}: check `ray status` there"
