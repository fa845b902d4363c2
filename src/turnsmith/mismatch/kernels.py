"""Other attention kernels, whose log-probs should differ from the reference only by rounding."""

import numpy as np
import torch
from transformers import PreTrainedModel

from turnsmith.engines.torch import attention
from turnsmith.mismatch import forward
from turnsmith.mismatch.base import Hypothesis
from turnsmith.training.model import logprobs_of_sampled
from turnsmith.types import MicroBatch, Sample, Trajectory


def rescore_eager(model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of the sampled tokens with transformers' eager attention."""
    with forward.attending_by(model, "eager"):
        return forward.rescore(model, trajectory)


@torch.no_grad()
def rescore_packed(model: PreTrainedModel, trajectory: Trajectory, dtype: torch.dtype = torch.float32) -> np.ndarray:
    """Compute the log-probs of the sampled tokens with the trainer's packed attention."""
    names = trajectory.trajectory_id, trajectory.group_id
    rows = trajectory.token_ids, trajectory.sampled, trajectory.logprobs, np.zeros(len(trajectory.token_ids))
    with forward.attending_by(model, attention.NAME):
        return logprobs_of_sampled(model, MicroBatch([Sample(*names, *rows)]), dtype).cpu().numpy()


HYPOTHESES = (
    Hypothesis("kernel", "eager attention", rescore_eager),
    Hypothesis("kernel", "the trainer's packed attention", rescore_packed),
)
