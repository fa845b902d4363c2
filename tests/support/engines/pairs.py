"""Pairs of engine and trainer for the conformance tests, opened from a model directory."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from support.engines import remote_pair
from turnsmith.config import ModelConfig, OptimizerConfig
from turnsmith.engines.base import Engine, SavedWeights
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.recipes.policy.base import Start
from turnsmith.training.base import Trainer
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.local import LocalTrainer
from turnsmith.training.model import load_model

MAX_CONTEXT = 200


@dataclass(frozen=True)
class Pair:
    open_engine: Callable[[Path], Engine]
    open_trainer: Callable[[Path, OptimizerConfig, int], Trainer]
    needs_ray: bool = False


def open_inprocess_engine(directory: Path) -> InProcessEngine:
    model = load_model(ModelConfig(path=str(directory)))
    return InProcessEngine(model, max_context=MAX_CONTEXT, num_blocks=8 * blocks_for(MAX_CONTEXT))


def open_local_trainer(directory: Path, optimizer: OptimizerConfig, total_steps: int) -> LocalTrainer:
    return LocalTrainer(load_model(ModelConfig(path=str(directory))), optimizer, total_steps)


def open_remote_trainer(directory: Path, optimizer: OptimizerConfig, total_steps: int) -> Trainer:
    return remote_pair.RemoteTrainer(Start(optimizer, total_steps, SavedWeights(0, directory)))


def open_rank_trainer(directory: Path, optimizer: OptimizerConfig, total_steps: int, layout: RankLayout) -> Trainer:
    # Only these pairs need Ray, whose import takes a second.
    from support.cluster import shared_ranks

    return shared_ranks.open_rank_trainer(directory, optimizer, total_steps, layout)


LAYOUTS = {
    "on 1 rank": RankLayout(1),
    "on 2 ranks": RankLayout(2),
    "on 4 ranks": RankLayout(4, cp=2, cp_kind="gather"),
}
ON_RANKS = {
    name: Pair(open_inprocess_engine, partial(open_rank_trainer, layout=layout), needs_ray=True)
    for name, layout in LAYOUTS.items()
}
"""Pairs whose trainer is sharded over ranks on Ray. Their engine is the one in this process."""
PAIRS = ON_RANKS | {
    "in this process": Pair(open_inprocess_engine, open_local_trainer),
    "in another process": Pair(remote_pair.RemoteEngine, open_remote_trainer),
}
NAMES = ["in this process", pytest.param("in another process", marks=pytest.mark.slow)]
"""Parameters of a test; pairs in other processes take seconds to start."""
