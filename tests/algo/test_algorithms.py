"""Properties of every algorithm: gradients, invariants, lookup and options."""

import pickle
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.episodes.small_batches import make_group, make_sample, near_old, random_samples, rewarded, tokens_of
from support.pages.page_examples import write_examples
from turnsmith.algo.algorithm import choose_algorithm, find_algorithm, read_stage_options
from turnsmith.algo.names import ALGORITHMS
from turnsmith.algo.packing import pack
from turnsmith.algo.tokens import LossTokens
from turnsmith.config import StageConfig
from turnsmith.errors import UsageError
from turnsmith.types import OUTCOMES, MicroBatch, Outcome

NAMES = sorted(ALGORITHMS.paths)
NORMALISED = ["cispo", "dapo", "grpo", "gspo"]
WIDE = {"gspo": {"sequence_clip_low": 0.2, "sequence_clip_high": 0.3}}
"""Options with which a random batch has tokens on both sides of the clip."""
AGENT = [outcome for outcome, rule in OUTCOMES.items() if rule.in_group]
INFRASTRUCTURE = [outcome for outcome, rule in OUTCOMES.items() if not rule.in_group]

every = pytest.mark.parametrize("name", NAMES)
rewards = st.lists(st.floats(-1, 1), min_size=2, max_size=8)


def chosen(name, **stage):
    """Return an algorithm and its options."""
    algorithm = find_algorithm(name)
    return algorithm, read_stage_options(algorithm, StageConfig(algorithm=name, **stage))


def make_loss(name, samples):
    algorithm, options = chosen(name)
    return algorithm.make_loss(samples, options.model_copy(update=WIDE.get(name)))


def advantages_of(name, group):
    algorithm, options = chosen(name)
    return algorithm.advantages(group, options)


def loss_and_gradient(loss_fn, logprobs, samples):
    logprobs = logprobs.detach().requires_grad_()
    loss, _ = loss_fn(logprobs, tokens_of(samples))
    loss.backward()
    return loss.detach(), logprobs.grad


@pytest.mark.parametrize("name", [name for name in NAMES if name != "cispo"])
@pytest.mark.parametrize("seed", range(3))
def test_gradients_match_finite_differences(name, seed):
    samples = random_samples(seed)
    loss_fn, tokens = make_loss(name, samples), tokens_of(samples)
    assert torch.autograd.gradcheck(lambda logprobs: loss_fn(logprobs, tokens)[0], near_old(samples, seed))


def test_cispo_gradient_matches_finite_differences_with_fixed_weights():
    samples = random_samples(0)
    tokens, logprobs = tokens_of(samples), near_old(samples, 0)
    _, gradient = loss_and_gradient(make_loss("cispo", samples), logprobs, samples)
    weight = (logprobs - tokens.old_logprobs).exp().clamp(max=5.0).detach()

    def held(values):
        return -(weight * tokens.advantages * values).sum() / len(values)

    assert torch.autograd.gradcheck(held, logprobs)
    assert torch.allclose(gradient, torch.autograd.grad(held(logprobs), logprobs)[0])


@every
@given(seed=st.integers(0, 1_000), max_tokens=st.integers(1, 40))
@settings(max_examples=25)
def test_micro_batch_losses_add_up_to_the_batch_loss(name, seed, max_tokens):
    samples = random_samples(seed)
    loss_fn, now = make_loss(name, samples), near_old(samples, seed).detach()
    whole, gradient = loss_and_gradient(loss_fn, now, samples)
    of_sample = dict(
        zip([s.trajectory_id for s in samples], now.split([s.num_loss_tokens for s in samples]), strict=True)
    )
    losses, gradients = [], {}
    for micro_batch in pack(samples, max_tokens):
        names = [sample.trajectory_id for sample in micro_batch.samples]
        part = torch.cat([of_sample[name] for name in names])
        loss, grad = loss_and_gradient(loss_fn, part, micro_batch.samples)
        losses.append(loss)
        gradients |= zip(names, grad.split([len(of_sample[name]) for name in names]), strict=True)
    assert torch.allclose(torch.stack(losses).sum(), whole)
    assert torch.allclose(torch.cat([gradients[s.trajectory_id] for s in samples]), gradient)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "rloo"])
@given(seed=st.integers(0, 1_000))
@settings(max_examples=20)
def test_unchanged_policy_has_ratio_one_no_clip_and_no_divergence(name, seed):
    samples = random_samples(seed)
    tokens = tokens_of(samples)
    _, metrics = make_loss(name, samples)(tokens.old_logprobs, tokens)
    assert metrics["loss/ratio_mean"] == metrics["loss/ratio_max"] == 1.0
    assert metrics["loss/clip_frac_low"] == metrics["loss/clip_frac_high"] == metrics["loss/kl_old_new"] == 0.0


@every
def test_gradient_favours_above_average_siblings(name):
    samples = random_samples(3)
    algorithm, options = chosen(name)
    tokens = tokens_of(samples)
    _, gradient = loss_and_gradient(algorithm.make_loss(samples, options), tokens.old_logprobs, samples)
    assert torch.equal(gradient.sign(), -tokens.advantages.sign())


@every
def test_extreme_log_ratio_stays_finite(name):
    sample = make_sample("t", [-500.0], -1.0)
    logprobs = torch.tensor([-0.1], requires_grad=True)
    loss, metrics = make_loss(name, [sample])(logprobs, LossTokens.of(MicroBatch([sample])))
    loss.backward()
    assert torch.isfinite(torch.stack([loss, logprobs.grad[0], *map(torch.tensor, metrics.values())])).all()


@every
def test_loss_can_be_pickled(name):
    samples = random_samples(1)
    loss_fn, now = make_loss(name, samples), near_old(samples, 1)
    there = pickle.loads(pickle.dumps(loss_fn))
    assert torch.equal(there(now, tokens_of(samples))[0], loss_fn(now, tokens_of(samples))[0])


@every
@given(
    st.lists(st.tuples(st.sampled_from(AGENT), st.floats(-1, 1)), min_size=2, max_size=8),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from(INFRASTRUCTURE), st.floats(-5, 5)), max_size=5),
)
@settings(max_examples=25)
def test_infrastructure_failures_neither_train_nor_change_siblings(name, members, failures):
    clean = make_group(members)
    trajectories, earned = list(clean.trajectories), list(clean.rewards)
    for index, (position, outcome, reward) in enumerate(failures):
        lost = clean.trajectories[0].model_copy(update={"trajectory_id": f"lost{index}", "outcome": outcome})
        trajectories.insert(position, lost)
        earned.insert(position, reward)
    mixed = clean.model_copy(update={"trajectories": trajectories, "rewards": earned})
    assert advantages_of(name, mixed) == advantages_of(name, clean)


@every
def test_group_with_fewer_than_two_counted_members_has_no_advantages(name):
    assert advantages_of(name, make_group([(Outcome.RESOLVED, 1.0), (Outcome.SANDBOX_FAILED, 0.0)])) == {}


@every
@given(rewards, st.floats(-10, 10))
@settings(max_examples=25)
def test_advantages_sum_to_zero_and_ignore_a_constant_reward_shift(name, values, shift):
    # Skip rewards that differ only by rounding, which the division by their deviation would amplify.
    values = [round(value, 3) for value in values]
    before = list(advantages_of(name, rewarded(*values)).values())
    after = list(advantages_of(name, rewarded(*(value + shift for value in values))).values())
    assert after == pytest.approx(before, abs=1e-5)
    assert sum(before) == pytest.approx(0, abs=1e-6)


@every
@given(rewards, st.floats(0.5, 10))
@settings(max_examples=25)
def test_reward_scale_is_normalised_or_kept(name, values, scale):
    values = [round(value, 2) for value in values]
    before = advantages_of(name, rewarded(*values)).values()
    after = list(advantages_of(name, rewarded(*(value * scale for value in values))).values())
    factor = 1 if name in NORMALISED else scale
    assert after == pytest.approx([advantage * factor for advantage in before], rel=1e-3, abs=1e-9)


@every
def test_each_algorithm_learns_a_rewarded_token(name):
    """Train a context-free policy over four tokens, with a reward for each token 2."""
    logits = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    algorithm, options = chosen(name, max_context=64)
    optimizer = torch.optim.SGD([logits], lr=64.0 if name == "dr_grpo" else 1.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        drawn = torch.multinomial(logits.detach().softmax(0), 24, True, generator=generator).view(8, 3)
        group = rewarded(*(drawn == 2).double().mean(1).tolist())
        advantages = algorithm.advantages(group, options)
        old = logits.detach().log_softmax(0)[drawn].tolist()
        samples = [
            make_sample(member, old_row, advantages[member], token_ids=row)
            for member, row, old_row in zip(advantages, drawn.tolist(), old, strict=True)
        ]
        loss, _ = algorithm.make_loss(samples, options)(logits.log_softmax(0)[drawn.flatten()], tokens_of(samples))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert logits.softmax(0)[2] > 0.7


def test_error_for_unknown_algorithm_lists_known_ones():
    sentence = "there is no algorithm 'ppo': give cispo, dapo, dr_grpo, grpo, gspo, rloo, or an import path"
    with pytest.raises(UsageError, match=sentence):
        find_algorithm("ppo")


def test_import_path_must_name_an_algorithm():
    with pytest.raises(UsageError, match=r"turnsmith.algo.packing:pack is a function: give a .*Algorithm"):
        find_algorithm("turnsmith.algo.packing:pack")
    assert find_algorithm("turnsmith.algo.rloo:RLOO") is find_algorithm("rloo")


@pytest.mark.parametrize(
    ("stage", "sentence"),
    [
        ({"algorithm": "grpo", "algorithm_options": {"bta": 0.1}}, "bta is unknown to grpo: its options are clip_eps"),
        ({"algorithm_options": {"beta": 0.1}}, "algorithm_options.beta is unknown to dapo: its options are none"),
        ({"algorithm": "grpo", "algorithm_options": {"clip_eps": -1}}, "clip_eps: Input should be greater than 0"),
        ({"algorithm": "grpo", "algorithm_options": {"clip_eps": "much"}}, "clip_eps: Input should be a valid number"),
        ({"algorithm": "grpo", "algorithm_options": {"beta": 0.04}}, "algorithm_options.beta is unknown to grpo"),
        ({"algorithm_options": {"clip_eps_low": 0.1}}, "algorithm_options.clip_eps_low is a key of the stage itself"),
        ({"algorithm": "rloo", "clip_eps_high": 0.26}, "rloo does not read clip_eps_high: remove it"),
    ],
)  # fmt: skip
def test_wrong_option_raises_usage_error(stage, sentence):
    stage = StageConfig(name="first", **stage)
    with pytest.raises(UsageError) as caught:
        read_stage_options(find_algorithm(stage.algorithm), stage)
    assert str(caught.value).startswith("stage first: ") and sentence in str(caught.value)


def test_custom_algorithm_is_imported_from_the_working_directory(working_directory):
    write_examples(working_directory)
    stage = StageConfig(algorithm="my_algorithm:MINE", algorithm_options={"max_advantage": 0.25})
    advantages, make_loss = choose_algorithm(stage)
    assert list(advantages(rewarded(1.0, 0.0, 0.5)).values()) == [0.25, -0.25, 0]
    samples = random_samples(0)
    loss, gradient = loss_and_gradient(make_loss(samples), near_old(samples, 0), samples)
    assert torch.allclose(gradient, -tokens_of(samples).advantages / len(gradient)) and torch.isfinite(loss)


def test_algorithms_and_their_options_are_checked_without_torch():
    code = (
        "import sys; from turnsmith.algo.names import ALGORITHMS; from turnsmith.algo.algorithm import find_algorithm\n"
    )
    code += "for name in ALGORITHMS.paths: find_algorithm(name)\nassert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
