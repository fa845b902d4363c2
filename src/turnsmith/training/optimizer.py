"""AdamW of a trainer, the form of its moments, and the learning-rate schedule."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer

from turnsmith.config import Moments, OptimizerConfig
from turnsmith.config.extras import require
from turnsmith.training.moments import BFloat16AdamW, HostAdamW


def make_optimizer(model: nn.Module, config: OptimizerConfig, moments: Moments = "float32") -> Optimizer:
    """Make an AdamW optimizer with weight decay on matrices only, not on norms and biases. Raises UsageError without torchao."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    settings: dict[str, Any] = {"lr": config.learning_rate, "betas": (config.beta1, config.beta2)}
    match moments:
        case "float32":
            return torch.optim.AdamW(groups, fused=True, **settings)
        case "bfloat16":
            return BFloat16AdamW(groups, **settings)
        case "host":
            return HostAdamW(groups, **settings)
        case "8bit":
            require_moments(moments)
            from turnsmith.training.eight_bit import EightBitAdamW

            return EightBitAdamW(groups, **settings)


def require_moments(moments: Moments) -> None:
    """Raise UsageError if a package that a kind of moments needs is not installed."""
    if moments == "8bit":
        require("torchao", subject="trainer.moments = 8bit")


def set_learning_rate(optimizer: Optimizer, learning_rate: float) -> None:
    """Set the learning rate of all groups. torchao keeps it in a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(learning_rate)
        else:
            group["lr"] = learning_rate


def schedule(step: int, total_steps: int, warmup_steps: int) -> float:
    """Return the learning rate at a step as a fraction of its peak: linear warm-up, then a cosine to zero.

    After warm-up the rate stays at its peak if `total_steps` is 0, as in RL, where the number of steps is unknown.
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if not total_steps:
        return 1.0
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
