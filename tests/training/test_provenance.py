"""Batches are accepted exactly if they are unchanged since sampling.

The agent loop makes the trajectories with two engines: a scripted one, whose log-probs are all 0, and the in-process engine with
a random model under several versions of its weights.
"""

import asyncio
from dataclasses import replace
from functools import cache
from itertools import cycle
from zlib import crc32

import numpy as np
import pytest
import torch

from support.episodes import tampering
from support.episodes.tampering import BATCH_MISTAKES, SAMPLE_MISTAKES, is_batch_changed, is_changed
from support.models.small_models import make_model
from support.models.small_tokenizers import make_tokenizer
from tiny_base.scripted import ScriptedEngine
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.algo.packing import pack
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import AgentConfig
from turnsmith.engines.base import SharedWeights
from turnsmith.engines.torch.blocks import blocks_for
from turnsmith.engines.torch.inprocess import InProcessEngine
from turnsmith.errors import ProvenanceError
from turnsmith.rollouts.samples import to_rft_sample, to_sample
from turnsmith.training.provenance import SampleArrays, check_provenance, find_difference
from turnsmith.types import ExecResult, Task, Trajectory, add_tokenizer_provenance

torch.set_num_threads(1)

MAX_CONTEXT, GROUP_SIZE = 1_500, 4
AGENT = AgentConfig(
    scaffold="bash", prompts="brief", max_context=MAX_CONTEXT, max_new_tokens=40, max_turns=4,
    max_observation_tokens=60,
)  # fmt: skip
TASK = Task(
    instance_id="a", repo="r", base_commit="0", problem_statement="`total` is wrong.", FAIL_TO_PASS=["t"], PASS_TO_PASS=[],
    patch="", image="any",
)  # fmt: skip


class Echo:
    """Sandbox in which every command prints its own text."""

    isolation = "none"

    async def exec(self, command, *, timeout_s, cwd=None, stdin=b"", env=None):
        return ExecResult(0, command.encode()[:80], 0.0, cwd=cwd or "/")

    async def diff(self):
        return ""


def say(command):
    return f"So.\n```command\n{command}\n```"


def answer(episode_id, turn, history):
    """Return turns of which one in four is malformed; siblings differ from their second turn on."""
    index = int(episode_id[-1])
    return "no block" if turn == index else say(f"ls {'x' * turn * index}") if turn < 3 else say("submit")


async def play(engine, renderer, group, index):
    name = f"{group}/{index}"
    begun = Trajectory(
        trajectory_id=name, group_id=group, index=index, instance_id="a", iteration=0, seed=crc32(name.encode())
    )
    dialogue = TokenDialogueFactory(engine, renderer).open(begun, AGENT)
    return await Episode(begun, TASK, dialogue, Echo(), load_scaffold("bash", prompts="brief"), AGENT).play()


async def play_all():
    renderer, model = ChatRenderer(make_tokenizer()), make_model(vocab_size=350, max_position_embeddings=MAX_CONTEXT)
    inprocess = InProcessEngine(model, max_context=MAX_CONTEXT, num_blocks=8 * blocks_for(MAX_CONTEXT))
    scripted, groups = ScriptedEngine(renderer.tokenizer, answer, stop_token_id=renderer.end_of_turn_id), []
    for version, engine in enumerate((inprocess, scripted, inprocess, inprocess)):
        await engine.load_weights(SharedWeights(version, model))
        members = range(GROUP_SIZE)
        groups.append(await asyncio.gather(*(play(engine, renderer, f"rl-{version:04d}/a", i) for i in members)))
    return groups


@cache
def play_once():
    """Return four groups of four siblings with up to four turns each."""
    return asyncio.run(play_all())


def draw_sample(rng, trajectory):
    """Return a sample as RL makes it, or as RFT makes it with a shorter prompt."""
    if rng.random() < 0.6:
        return to_sample(trajectory, advantage=float(rng.normal()))
    prompt = trajectory.token_ids[: trajectory.prompt_tokens]
    kept = np.delete(prompt, rng.integers(len(prompt), size=20)).tolist()
    return to_rft_sample(trajectory, kept)


def draw_batch(rng, num=4):
    """Return samples of different trajectories and one to confuse with the first, usually its sibling."""
    groups = play_once()
    places = [divmod(int(at), GROUP_SIZE) for at in rng.permutation(len(groups) * GROUP_SIZE)[: num + 1]]
    chosen = [groups[group][index] for group, index in places]
    if rng.random() < 0.7:
        group, index = places[0]
        chosen[num] = groups[group][(index + 1) % GROUP_SIZE]
    samples = [draw_sample(rng, trajectory) for trajectory in chosen]
    return samples[:num], samples[num]


def draw_batch_with(mistake, rng):
    """Return micro-batches with an effective change."""
    while True:
        samples, other = draw_batch(rng)
        if mistake in BATCH_MISTAKES:
            first, *rest = pack(samples, 4_096)
            mistaken = mistake(rng, first)
            if is_batch_changed(first, mistaken):
                return [mistaken, *rest]
        else:
            mistaken = mistake(rng, samples[0], other)
            if is_changed(samples[0], mistaken):
                return pack([mistaken, *samples[1:]], 4_096)


def is_accepted(batches):
    try:
        check_provenance(batches)
    except ProvenanceError:
        return False
    return True


@pytest.mark.parametrize("num", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_batches_with_a_mistake_are_refused_and_others_accepted(num):
    rng, mistakes = np.random.default_rng(num), cycle(SAMPLE_MISTAKES + BATCH_MISTAKES)
    accepted = [m.__name__ for m, _ in zip(mistakes, range(num), strict=False) if is_accepted(draw_batch_with(m, rng))]
    assert accepted == []
    assert all(is_accepted(pack(draw_batch(rng)[0], 4_096)) for _ in range(num))


@pytest.mark.parametrize(
    ("mistake", "fault"),
    [
        (
            tampering.change_sampled_token,
            r"turn \d+: tokens \d+ to \d+: token ids, of the turn or after token \d+, are not",
        ),
        (tampering.change_observed_token, "token ids, of the turn or after"),
        (tampering.move_one_logprob_by_one_ulp, r"turn \d+: tokens \d+ to \d+: log-probs are not those of the engine"),
        (tampering.next_version, r"policy version \d+ sampled it, not \d+"),
        (tampering.widen_mask, r"token \d+ is in the loss mask and must not be"),
        (tampering.narrow_mask, r"token \d+ is left out of the loss mask"),
        (tampering.truncate, r"there are \d+ tokens, and turns before it end at"),
        (tampering.go_on_after_the_end, "3 tokens follow the last turn"),
        (tampering.lose_digest, "its engine gave no digest"),
        (tampering.lose_provenance, "has no digests"),
    ],
)
def test_the_error_describes_the_difference(mistake, fault):
    rng, [name, *_] = np.random.default_rng(1), [t.trajectory_id for t in play_once()[0]]
    sample, other = (to_sample(trajectory, 1.0) for trajectory in play_once()[0][:2])
    with pytest.raises(ProvenanceError, match=f"{name}, .*{fault}.*turnsmith provenance"):
        check_provenance(pack([other, mistake(rng, sample, other)], 4_096))


def test_the_first_turn_that_differs_is_named():
    trajectory = play_once()[0][0]
    for number, turn in enumerate(trajectory.turns, 1):
        for at in (turn.start - 1, turn.start, turn.end - 1):
            token_ids = trajectory.token_ids.copy()
            token_ids[at] += 1
            found = find_difference(SampleArrays.of(to_sample(trajectory.grow(token_ids=token_ids), 1.0)))
            assert found.turn == number


def test_turns_excluded_from_fine_tuning_are_proven_and_stay_excluded():
    broken = play_once()[1][2]
    prompt = [5, 6, 7]
    sample = to_rft_sample(broken, prompt)
    assert [link.trains for link in sample.provenance.links] == [turn.format_error is None for turn in broken.turns]
    assert 0 < sample.num_loss_tokens < broken.sampled.sum()
    assert find_difference(SampleArrays.of(sample)) is None
    edited = replace(sample, token_ids=np.concatenate([[5, 6, 8], sample.token_ids[3:]]))
    assert (
        str(find_difference(SampleArrays.of(edited)))
        == f"{broken.trajectory_id}, prompt: its tokens are not those that were rendered"
    )


def test_text_of_other_systems_is_proven_from_its_tokenisation_on():
    plain = replace(to_sample(play_once()[0][0], 1.0), provenance=None)
    sample = add_tokenizer_provenance(plain)
    assert sample.provenance.source == "tokenizer" and find_difference(SampleArrays.of(sample)) is None
    for at in range(0, len(sample), 7):
        mistaken = replace(sample, token_ids=np.where(np.arange(len(sample)) == at, 339, sample.token_ids))
        assert find_difference(SampleArrays.of(mistaken))
