"""Hypotheses on a random model: without the fault they equal the reference, with it the faulty engine."""

import numpy as np
import pytest
import torch

from support.models.small_models import make_model
from turnsmith.mismatch import faults, forward, settings, tokenisation
from turnsmith.mismatch.report import FaultResult, MismatchReport, SamplerFit
from turnsmith.training.sampler_settings import Alternative
from turnsmith.types import Trajectory, Turn

torch.set_num_threads(1)
LENGTH, TURNS = 40, [(10, 16), (20, 27), (33, 40)]


@pytest.fixture(scope="module")
def model():
    return plain(make_model(seed=0))


def plain(model):
    model.set_attn_implementation(forward.KERNEL)
    return model


@pytest.fixture(scope="module")
def trajectory():
    ids = np.random.default_rng(0).integers(0, 61, LENGTH)
    sampled = np.zeros(LENGTH, bool)
    for start, end in TURNS:
        sampled[start:end] = True
    return Trajectory(
        trajectory_id="a/b/0", group_id="a/b", index=0, instance_id="b", iteration=0, seed=0, token_ids=ids, sampled=sampled,
        logprobs=np.where(sampled, -1.0, 0.0), turns=[Turn(start=start, end=end, text="") for start, end in TURNS],
    )  # fmt: skip


@torch.no_grad()
def by_hand(model, ids, positions=None):
    """Compute log-probs of every token but the first by one call of transformers."""
    places = torch.arange(len(ids)) if positions is None else torch.from_numpy(positions)
    ids = torch.from_numpy(np.asarray(ids, np.int64))
    out = model(ids[None], position_ids=places[None], attention_mask=torch.ones(1, len(ids), dtype=torch.long))
    return out.logits[0, :-1].log_softmax(-1).gather(1, ids[1:, None])[:, 0].numpy()


def close(one, other, atol=1e-4):
    return np.allclose(one, other, rtol=0, atol=atol)


def test_reference_equals_the_models_forward(model, trajectory):
    expected = by_hand(model, trajectory.token_ids)[trajectory.sampled[1:]]
    assert close(forward.rescore(model, trajectory), expected)


def test_kernels_differ_only_by_rounding_and_bfloat16_by_more(model, trajectory):
    reference = forward.rescore(model, trajectory)
    assert all(close(each.rescore(model, trajectory), reference) for each in faults.KERNELS)
    for each in faults.ROUNDING:
        assert 1e-3 < abs(each.rescore(each.prepare(model), trajectory) - reference).mean() < 0.3
    assert model.config._attn_implementation == forward.KERNEL and model.dtype == torch.float32


def test_stale_weights_use_the_earlier_model(model, trajectory):
    earlier = plain(make_model(seed=1))
    rescored = faults.list_stale("before", earlier, [])[0].rescore(model, trajectory)
    assert close(rescored, forward.rescore(earlier, trajectory)) and not close(
        rescored, forward.rescore(model, trajectory)
    )


def test_cache_of_the_same_weights_changes_nothing(model, trajectory):
    reference = forward.rescore(model, trajectory)
    for each in faults.list_stale("now", model, [trajectory.token_ids]):
        assert close(each.rescore(model, trajectory), reference), each.name


def test_stale_cache_covers_its_boundary(model, trajectory):
    """Test that a turn without stale keys equals the reference, and one after a stale prompt does not."""
    reference, earlier = forward.rescore(model, trajectory), plain(make_model(seed=1))
    nothing = faults.rescore_stale(lambda t, turn: 0, earlier, model, trajectory)
    second = faults.rescore_stale(lambda t, turn: 15 if turn == 1 else 0, earlier, model, trajectory)
    assert close(nothing, reference)
    assert close(second[:6], reference[:6]) and close(second[13:], reference[13:])
    assert not close(second[6:13], reference[6:13], atol=1e-2)
    assert faults.known_before([trajectory.token_ids[:7], trajectory.token_ids[5:]], trajectory, 0) == 7


def test_positions_shift_from_the_given_turn(model, trajectory):
    shifted = np.arange(LENGTH) + (np.arange(LENGTH) >= 20)
    expected = by_hand(model, trajectory.token_ids, shifted)[trajectory.sampled[1:]]
    named = {each.name: each for each in faults.list_shifts(num_turns=3)}
    assert close(named["positions off by +1 from turn 2 on"].rescore(model, trajectory), expected)
    assert not close(
        named["positions off by +1 after the first prompt"].rescore(model, trajectory), expected, atol=1e-3
    )
    growing = faults.shift_each_turn(1, trajectory)
    assert [growing[at] for at in (9, 16, 26, 27, 39)] == [0, 1, 1, 2, 2]


def test_turns_are_scored_after_the_retokenised_history(model, trajectory):
    same = tokenisation.Retokenisation(lambda t, number, ids: ids, list)
    assert close(tokenisation.rescore_retokenised(same, model, trajectory), forward.rescore(model, trajectory))
    longer = tokenisation.Retokenisation(lambda t, number, ids: [5, *ids], list)
    ids = trajectory.token_ids
    history = np.concatenate([ids[:16], [5], ids[16:27], [5], ids[27:]])
    wanted = np.concatenate(
        [trajectory.sampled[:16], [False], trajectory.sampled[16:27], [False], trajectory.sampled[27:]]
    )
    expected = by_hand(model, history)[wanted[1:]]
    assert close(tokenisation.rescore_retokenised(longer, model, trajectory), expected)
    # A turn that is retokenised in later histories is scored as sampled.
    shorter = tokenisation.Retokenisation(lambda t, number, ids: ids, lambda ids: ids[:-1])
    last = by_hand(model, np.concatenate([ids[:15], ids[16:26], ids[27:]]))[-7:]
    assert close(tokenisation.rescore_retokenised(shorter, model, trajectory)[-7:], last)


def test_reported_setting_is_fitted(model, trajectory):
    for alternative in (Alternative("temperature", 0.83), Alternative("min_p", 0.104)):
        said = settings.rescore_shaped(alternative, model, trajectory)
        logprobs = np.zeros(LENGTH, np.float32)
        logprobs[trajectory.sampled] = said
        reported = trajectory.grow(logprobs=logprobs)
        first = min(settings.fit(model, [reported]), key=lambda fit: fit.gap)
        best = min(settings.fit(model, [reported], settings.refine(first.alternative)), key=lambda fit: fit.gap)
        assert best.alternative.kind == alternative.kind and best.gap < 0.02
    at_half = torch.from_numpy(by_hand(model, trajectory.token_ids)[trajectory.sampled[1:]])
    assert close(settings.rescore_shaped(Alternative("temperature", 1.0), model, trajectory), at_half)


def make_report(gap, toggles=(), setting=None):
    return MismatchReport(
        stage="rl", iteration=0, weights="the base", dtype="float32", num_trajectories=1, num_tokens=9, gap=gap, rounding=1e-4,
        toggles=[FaultResult(family="f", name=name, gap=gap * (1 - share), share=share) for name, share in toggles],
        setting=setting, by_turn=[], by_position=[], remarks=[],
    )  # fmt: skip


def make_setting(nats):
    return SamplerFit(name="drawn at top_k 4", nats=nats, needed=17.5, surprise=0.4, entropy=0.5, expected=0.41)


def test_conclusion_is_a_fault_nothing_or_unexplained():
    assert make_report(1e-6, setting=make_setting(3.0)).conclusion.startswith("nothing: inside rounding")
    assert make_report(1e-6, setting=make_setting(60.0)).conclusion.startswith("drawn at top_k 4, while")
    assert "explains 90% of the difference" in make_report(1e-6, setting=make_setting(60.0)).conclusion
    named = make_report(0.1, [("stale weights", 0.97), ("other", 0.2)])
    assert named.conclusion == "stale weights: explains 97.0% of a gap of 0.1 nats per token, leaving 0.003"
    assert make_report(0.1, [("stale weights", 0.3)]).conclusion.startswith("unexplained: log-probs differ by 0.1")
    assert make_report(0.1).conclusion.startswith("unexplained")
