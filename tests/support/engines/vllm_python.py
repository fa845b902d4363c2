"""Interpreter whose vLLM is the stand-in of `support/vllm_stand_in`, requests to it, and what it must answer."""

import sys
from pathlib import Path

import numpy as np
import torch

from support.models.small_models import VOCABULARY, make_model
from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.vllm.settings import ServerRequirements

TESTS = Path(__file__).parents[2]
PROMPT = np.arange(20) % VOCABULARY


def write_vllm_python(folder: Path) -> str:
    """Write a script that starts Python with the stand-in, whose faults are in `folder / "faults"`; return its path."""
    script, paths = folder / "python", f"$PYTHONPATH:{TESTS / 'support/vllm_stand_in'}:{TESTS}"
    script.write_text(
        f'#!/bin/sh\nSTAND_IN_FAULTS="{folder / "faults"}" PYTHONPATH="{paths}" exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)


def want(base, **changes):
    config = make_model().config
    facts = {"dtype": "float32", "max_context": 200, "num_episodes": 8, "kv_bytes": 10**8, "seed": 0}
    return ServerRequirements(base, config, **facts | changes)


def ask(episode="a", num=8, stop=frozenset()):
    return GenerateRequest(episode, PROMPT, num, stop, seed=0)


@torch.no_grad()
def assert_sampled_by(model, *answers):
    """Assert that the log-probs are those that the stand-in computes from these weights."""
    plain = model.get_input_embeddings().weight.double().sum(1).log_softmax(0).numpy()
    for answer in answers:
        np.testing.assert_allclose(answer.logprobs, plain[answer.token_ids], rtol=0, atol=1e-5)


def count_turns(faults):
    """Count the turns that the stand-in has begun to sample."""
    turns = faults.with_name("turns")
    return turns.read_text().count("begun") if turns.exists() else 0
