"""Opening of the trainer of one rank, in the process of that rank."""

from dataclasses import dataclass
from pathlib import Path

import torch

from turnsmith.config import ModelConfig, OptimizerConfig, TrainerConfig
from turnsmith.training.activations.checkpointing import limit_activations
from turnsmith.training.fsdp.loading import build_empty, fill
from turnsmith.training.fsdp.mesh import RankLayout, open_mesh
from turnsmith.training.fsdp.sharding import FORWARD, shard_model
from turnsmith.training.fsdp.trainer import ShardedTrainer
from turnsmith.training.model import check_packing, find_device


@dataclass(frozen=True)
class RankStart:
    """Function that opens the trainer of a rank. The driver pickles it, and each rank calls it."""

    directory: Path
    """Model directory with the initial weights of the stage."""
    model: ModelConfig
    trainer: TrainerConfig
    layout: RankLayout
    optimizer: OptimizerConfig
    total_steps: int = 0
    """Number of optimizer steps of the stage; 0 if unknown."""
    policy_version: int = 0

    def __call__(self, rank: int, num_ranks: int) -> ShardedTrainer:
        """Open the trainer of a rank. All ranks call it at once; if fewer are left, the layout shrinks. Raises UsageError."""
        config = self.model.model_copy(update={"path": str(self.directory)})
        if config.threads:
            torch.set_num_threads(config.threads)
        device, dtype = find_device(config.device), getattr(torch, config.dtype)
        mesh = open_mesh(self.layout.resize(num_ranks), device)
        model = shard_model(build_empty(config), mesh, dtype)
        limit_activations(model, self.trainer)
        fill(model, self.directory, device)
        check_packing(getattr(model, FORWARD), device, self.directory, dtype)
        model.reshard()  # type: ignore[operator]
        return ShardedTrainer(
            model, mesh, self.optimizer, self.total_steps, self.policy_version, dtype, self.trainer.moments
        )
