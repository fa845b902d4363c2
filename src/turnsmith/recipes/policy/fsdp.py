"""Opening of a trainer whose model is sharded over ranks in processes of their own."""

import os
from pathlib import Path

import torch

from turnsmith.cluster.connection import connect, disconnect
from turnsmith.cluster.group import RankGroup
from turnsmith.cluster.placement import total
from turnsmith.cluster.trainer import RankTrainer
from turnsmith.config import RunConfig
from turnsmith.engines.base import SavedWeights, WeightSource
from turnsmith.errors import UsageError
from turnsmith.recipes.policy.base import PolicySetup, Start
from turnsmith.recipes.policy.ranks import read_layout
from turnsmith.training.fsdp.opening import RankStart
from turnsmith.training.model import find_device


async def open_rank_trainer(setup: PolicySetup, start: Start) -> RankTrainer:
    """Open a trainer on `trainer.num_ranks` ranks, connecting to Ray first. Raises UsageError."""
    config, layout = setup.config, read_layout(setup.config)
    is_inprocess = config.engine.kind == "inprocess"
    connect(config.cluster.address, setup.logs, list_gpus(config, is_inprocess))
    setup.resources.callback(disconnect)
    version, directory = start.weights.policy_version, find_directory(start.weights)
    ranks = RankStart(directory, config.model, config.trainer, layout, start.optimizer, start.total_steps, version)
    group = RankGroup(ranks, layout.num_ranks, choose_device(config), setup.logs)
    trainer = RankTrainer(group, layout.fit_size, setup.progress)
    await trainer.start()
    return trainer


def list_gpus(config: RunConfig, is_inprocess: bool) -> str | None:
    """List the GPUs of this machine that ranks may use, as in CUDA_VISIBLE_DEVICES: all but that of an in-process engine.

    None if nothing is to be excluded.
    """
    if not is_inprocess or find_device(config.model.device).type != "cuda":
        return None
    visible = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(torch.cuda.device_count())))
    others = visible.partition(",")[2]
    if not others:
        raise UsageError(
            "engine.kind inprocess occupies the only GPU here, and trainer.kind fsdp needs others: use trainer.kind local, "
            "or engine.kind vllm"
        )
    return others


def choose_device(config: RunConfig) -> str:
    """Return the device of all ranks, `cpu` or `cuda`: `auto` uses GPUs if the cluster has some."""
    if config.model.device == "auto":
        return "cuda" if total("GPU") else "cpu"
    return config.model.device


def find_directory(weights: WeightSource) -> Path:
    """Return the model directory of weights from which each rank reads its part. Raises UsageError if there is none."""
    if isinstance(weights, SavedWeights):
        return weights.directory
    raise UsageError("ranks read their initial weights from a model directory: use the same trainer.kind in all stages")
