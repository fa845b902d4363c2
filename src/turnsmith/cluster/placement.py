"""Reservation of a share of the cluster for each rank, in an order that keeps the ranks of a node together."""

import asyncio
import math
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group

from turnsmith.cluster.network import Address, is_closed
from turnsmith.errors import RanksLost, UsageError

PLACE_S = 600.0
"""Seconds to wait for GPUs that other work occupies."""


@dataclass(frozen=True)
class Places:
    """Reserved places of a group of ranks."""

    group: PlacementGroup
    bundles: list[int]
    """Number of each rank's bundle in the placement group. Ranks of one node are consecutive."""
    share: dict[str, float]
    """Resources of one rank."""
    daemons: set[Address]
    """Addresses of Ray's daemons on the nodes of the ranks."""

    def release(self) -> None:
        """Give the places back, and kill what still runs there."""
        remove_placement_group(self.group)


def choose_share(num_ranks: int, device: str) -> dict[str, float]:
    """Return the resources of one rank: a GPU, or an equal share of the CPUs. Raises UsageError if there are too few GPUs."""
    if device == "cpu":
        return {"CPU": 1 / math.ceil(num_ranks / max(1.0, total("CPU")))}
    num_gpus = int(total("GPU"))
    if num_ranks > num_gpus:
        raise UsageError(
            f"trainer.num_ranks is {num_ranks}, and the cluster has {num_gpus} GPUs: use as many, or set model.device = cpu"
        )
    return {"GPU": 1.0}


def total(resource: str) -> float:
    """Return the amount of a resource on all living nodes."""
    return float(sum(node["Resources"].get(resource, 0.0) for node in list_nodes()))


def count_places(share: dict[str, float]) -> int:
    """Count the ranks that fit on the living nodes."""
    return sum(count_on(node["Resources"], share) for node in list_nodes())


def count_on(resources: dict[str, float], share: dict[str, float]) -> int:
    """Count the ranks that fit on a node with these resources."""
    return min(int(resources.get(name, 0.0) / amount + 1e-6) for name, amount in share.items())


def list_nodes() -> list[dict[str, Any]]:
    """List the living nodes of the cluster. Ray itself notices seconds later that a daemon has ended."""
    return [node for node in ray.nodes() if node["Alive"] and not is_closed(find_daemon(node))]


def find_daemon(node: dict[str, Any]) -> Address:
    """Return the address at which Ray's daemon on a node listens."""
    return node["NodeManagerAddress"], node["NodeManagerPort"]


def list_places(num_gpus: int) -> list[tuple[str, list[int]]]:
    """List the places for servers of `num_gpus` GPUs of one node: id of the node, and numbers of the GPUs. Nodes take turns.

    Without GPUs, each node has one place.
    """
    nodes = sorted((node["NodeID"], int(node["Resources"].get("GPU", 0))) for node in list_nodes())
    if not num_gpus:
        return [(node, []) for node, _ in nodes]
    firsts = sorted((first, node) for node, count in nodes for first in range(0, count - num_gpus + 1, num_gpus))
    return [(node, list(range(first, first + num_gpus))) for first, node in firsts]


def check_servers(num_servers: int, num_gpus: int, num_ranks: int, *, is_shared: bool) -> None:
    """Raise UsageError unless the cluster can hold all ranks and all servers, each with `num_gpus` GPUs of one node."""
    num_places, available = len(list_places(num_gpus)), int(total("GPU"))
    if num_servers > num_places:
        raise UsageError(
            f"engine.vllm.replicas is {num_servers}, and the cluster has room for {num_places} servers with {num_gpus} GPUs of "
            "one node each: start fewer, or lower --tensor-parallel-size in engine.vllm.arguments"
        )
    if is_shared and num_ranks != available:
        raise UsageError(
            f"engine.placement shared needs a rank on each GPU, and the cluster has {available} GPUs for trainer.num_ranks "
            f"{num_ranks}: set one to the other, or use placement own"
        )
    needed = num_ranks + num_servers * num_gpus * (not is_shared)
    if needed > available:
        raise UsageError(
            f"{num_ranks} ranks and {num_servers} servers with {num_gpus} GPUs each need {needed} GPUs, and the cluster has "
            f"{available}: lower trainer.num_ranks or engine.vllm.replicas, or use placement shared"
        )


async def reserve(num_ranks: int, share: dict[str, float]) -> Places:
    """Reserve a place for each rank. Raises RanksLost if too few nodes are left, UsageError if other work occupies them."""
    group = placement_group([share] * num_ranks, strategy="PACK")
    try:
        deadline = time.monotonic() + PLACE_S
        while not await asyncio.to_thread(group.wait, 1):
            if (left := count_places(share)) < num_ranks:
                raise RanksLost(f"only {left} of {num_ranks} ranks fit on the nodes that are left")
            if time.monotonic() > deadline:
                raise UsageError(
                    f"{num_ranks} ranks found no free place in {PLACE_S:.0f} s: end other work on the cluster, or give a "
                    "smaller trainer.num_ranks"
                )
        nodes = placement_group_table(group)["bundles_to_node_id"]
        daemons = {find_daemon(node) for node in ray.nodes() if node["NodeID"] in nodes.values()}
        # Ray does not order bundles by node.
        return Places(group, sorted(range(num_ranks), key=lambda bundle: (nodes[bundle], bundle)), share, daemons)
    except BaseException:
        remove_placement_group(group)
        raise
