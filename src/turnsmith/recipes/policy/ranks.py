"""Layout of a trainer's ranks, and checks of it before anything is loaded. Imports neither torch nor Ray."""

import json
import math
import re
from typing import Any

from turnsmith.config import RunConfig
from turnsmith.config.extras import require
from turnsmith.errors import UsageError
from turnsmith.io.files import read_text
from turnsmith.training.directories import find_model
from turnsmith.training.fsdp.mesh import RankLayout

FSDP = "fsdp"
"""Kind of the trainer that is sharded over ranks."""


def check_ranks(config: RunConfig) -> None:
    """Check Ray, layout and engine of a run with ranks. Raises UsageError."""
    require("ray", subject=f"trainer.kind {FSDP}")
    read_layout(config)
    if config.engine.kind == "inprocess" and config.cluster.address:
        raise UsageError(
            "engine.kind inprocess samples in the process that starts the run, whose GPU a cluster may give to a rank: use "
            "engine.kind vllm, or remove cluster.address to use this machine only"
        )


def check_placement(config: RunConfig) -> None:
    """Check that a run whose vLLM servers are placed on a cluster has one. Raises UsageError."""
    require("ray", subject="engine.placement")
    if config.trainer.kind != FSDP:
        raise UsageError(
            f"engine.placement {config.engine.placement} starts servers on the cluster of a trainer with ranks: set trainer.kind "
            f"= {FSDP}, or remove engine.placement to start them on this machine"
        )


def count_server_gpus(config: RunConfig) -> int:
    """Count the GPUs over which one vLLM server divides the model, from its arguments."""
    return math.prod(
        find_number(config, names) for names in ("--tensor-parallel-size|-tp", "--pipeline-parallel-size|-pp")
    )


def find_number(config: RunConfig, names: str) -> int:
    """Find the value of an argument of the vLLM servers; 1 if it is absent. A bar separates the names of the argument."""
    given = re.search(rf"(?:^| )(?:{names})[= ](\d+)", " ".join(config.engine.vllm.arguments))
    return int(given[1]) if given and config.engine.kind == "vllm" else 1


def read_layout(config: RunConfig) -> RankLayout:
    """Read the layout of the ranks from the configuration. Raises UsageError if it does not divide ranks or heads."""
    trainer = config.trainer
    layout = RankLayout(trainer.num_ranks, trainer.cp, trainer.dp_replicate, trainer.cp_kind)
    model = read_model_config(config.model.path)
    if heads := model.get("num_attention_heads"):
        layout.check_heads(heads, model.get("num_key_value_heads") or heads)
    return layout


def read_model_config(path: str) -> dict[str, Any]:
    """Read the `config.json` of a model directory. Raises UsageError."""
    file = find_model(path) / "config.json"
    try:
        return dict(json.loads(read_text(file, "the model's configuration", "download it again")))
    except ValueError as error:
        raise UsageError(f"{file} is damaged ({error}): download it again") from None
