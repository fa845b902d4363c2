"""The paper's configuration files on four CPU ranks, with a small policy, small sizes and another hardware block."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from turnsmith.config import RunConfig
from turnsmith.config.files import read_toml
from turnsmith.runs.folder import RunFolder, read_json

CONFIGS = Path(__file__).parents[2] / "configs"
HARDWARE = {
    "cluster.address": "",
    "trainer.num_ranks": 4,
    "engine.kind": "inprocess",
    "engine.placement": None,
    "engine.kv_memory_gb": 1.0,
    "model.device": "cpu",
    "model.threads": 1,
    "sandbox.memory_mb": 256,
}
POLICY = {
    "model.path": "tiny",
    # The policy that ships with the package has learned these prompts. The paper's are longer than its context.
    "agent.prompts": "brief",
}
TASKS = {
    "train_tasks": {"practice_tasks": 6, "difficulty": 0.0},
    "eval_tasks": {"practice": {"practice_tasks": 1, "split": "heldout", "difficulty": 0.0}},
    "eval.num_runs": 1,
    "eval.k": 1,
}
CONTEXT = 1_280
SIZES = {
    "agent.max_context": CONTEXT,
    "agent.max_new_tokens": 160,
    "agent.max_turns": 4,
    "agent.max_observation_tokens": 320,
    "agent.window_lines": 10,
    "rollouts.concurrency": 60,
}
SIZES_OF_STAGE = {
    "iterations": 1,
    "tasks_per_iteration": 6,
    "max_turns": 12,
    "max_context": CONTEXT,
    # Two groups of ranks get a row each.
    "optimizer.max_tokens_per_micro_batch": 4_096,
}


def override(cp: int, num_stages: int) -> list[str]:
    """Return the arguments that scale a file down."""
    stages = {f"stages.{at}.{key}": value for at in range(num_stages) for key, value in SIZES_OF_STAGE.items()}
    given = HARDWARE | {"trainer.cp": cp} | POLICY | TASKS | SIZES | stages
    return [f"--{key}={value if isinstance(value, str) else json.dumps(value)}" for key, value in given.items()]


@pytest.mark.slow
@pytest.mark.ranks
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("name", "cp"), [("paper-72b-stage1", 2), ("paper-72b-stage2", 4)])
def test_the_papers_files_run_an_iteration_of_each_stage_on_four_ranks(tmp_path, name, cp):
    file, folder = CONFIGS / f"{name}.toml", RunFolder(tmp_path / "run")
    scaling = read_toml(file)["model"]["rope_scaling"]
    stages = [stage["name"] for stage in read_toml(file)["stages"]]
    command = [sys.executable, "-m", "turnsmith", "rl", file, "--out", folder.path, *override(cp, len(stages))]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1700)
    assert ended.returncode == 0, ended.stderr
    config = RunConfig.model_validate(read_json(folder.config))
    assert (config.trainer.kind, config.trainer.activation_checkpointing) == ("fsdp", "full")
    assert sorted(log.name for log in folder.server_logs.glob("rank-*")) == [f"rank-{rank}.log" for rank in range(4)]
    for stage in stages:
        iteration = folder.iteration(stage, 0)
        rope = read_json(iteration.checkpoint / "config.json")["rope_parameters"]
        assert (rope["rope_type"], rope["factor"]) == ("yarn", scaling["factor"])
    metrics = read_json(folder.iteration(stages[0], 0).metrics)
    assert metrics["rollouts/collected"] == 60 and metrics["optimizer/steps"] >= 1
    # Engine and ranks compute in bfloat16; without YaRN in one of them, the gap would be far larger.
    assert metrics["logprob_gap/mean"] < 0.02
