"""Identification of a sampler's setting, compared with exact distributions and in simulated iterations."""

import torch
from pytest import approx, mark

from turnsmith.engines.torch.sampling import sample, shape_logits
from turnsmith.training.sampler_settings import ALTERNATIVES, LEAK, Alternative, find_best, least_evidence, pool, weigh
from turnsmith.types import SamplingParams

VOCABULARY = 60


def make_logits(num, seed, spread=2.0):
    return spread * torch.randn(num, VOCABULARY, generator=torch.Generator().manual_seed(seed))


def to_params(alternative):
    return SamplingParams(**{alternative.kind: alternative.value})


def draw(logits, seed, params=None):
    """Draw a token from each distribution, shaped by the engine's code."""
    uniforms = torch.rand(len(logits), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    shaped = torch.stack([shape_logits(row, params, []) for row in logits]) if params else None
    return sample(logits, uniforms, shaped)[0]


@mark.parametrize("alternative", ALTERNATIVES, ids=str)
def test_evidence_matches_the_settings_distributions(alternative):
    logits = make_logits(200, seed=1)
    token_ids = draw(logits, seed=2)
    shaped = torch.stack([shape_logits(row, to_params(alternative), []) for row in logits])
    own, other = (scores.log_softmax(-1).gather(1, token_ids[:, None])[:, 0] for scores in (logits, shaped))
    plain = ((1 - LEAK) * (other - own).exp() + LEAK).log().sum()
    assert weigh(logits, token_ids, (alternative,)).item() == approx(plain.item(), abs=2e-3)


@mark.parametrize(
    "alternative",
    [Alternative("temperature", 0.9), Alternative("top_k", 20), Alternative("top_p", 0.95), Alternative("min_p", 0.02)],
    ids=str,
)
def test_sampling_setting_is_identified(alternative):
    logits = make_logits(5_000, seed=3)
    evidence = weigh(logits, draw(logits, 4, to_params(alternative))).tolist()
    named = dict(zip(ALTERNATIVES, evidence, strict=True))
    assert find_best(named) == alternative
    assert named[alternative] > least_evidence(len(ALTERNATIVES), 1e-6)


@mark.parametrize("spread", [0.5, 2.0, 6.0])
def test_false_alarm_rate_is_within_its_bound(spread):
    """Test that at most 5 % of 200 honest iterations, plus three standard errors, pass a bound meant for 5 %."""
    least, logits = least_evidence(len(ALTERNATIVES), 0.05), make_logits(50, 5, spread)
    passed = sum(weigh(logits, draw(logits, seed)).max().item() > least for seed in range(200))
    assert passed <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5


def play(num_iterations, alarm, params=None, num_tokens=50):
    """Return for each iteration whether there is an alarm."""
    logits, before, alarms = make_logits(num_tokens, 5), {}, []
    for seed in range(num_iterations):
        evidence = weigh(logits, draw(logits, seed, params)).tolist()
        pooled = pool(before, dict(zip(ALTERNATIVES, evidence, strict=True)), alarm)
        before = {str(each): nats for each, nats in pooled.items()}
        alarms.append(max(before.values()) >= alarm)
    return alarms


def test_pooled_false_alarm_rate_is_within_its_bound():
    alarms = play(400, least_evidence(len(ALTERNATIVES), 0.05))
    assert sum(alarms) <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_weak_evidence_adds_up_and_resets_after_an_alarm():
    alarm = least_evidence(len(ALTERNATIVES), 1e-4)
    weak = Alternative("temperature", 0.9)
    one = {weak: alarm / 4}
    pooled = pool({str(weak): -1_000.0}, one, alarm)
    for _ in range(3):
        assert pooled[weak] < alarm
        pooled = pool({str(weak): pooled[weak]}, one, alarm)
    assert pooled[weak] >= alarm
    assert pool({str(weak): pooled[weak]}, one, alarm) == one
    assert any(play(40, alarm, to_params(weak)))
