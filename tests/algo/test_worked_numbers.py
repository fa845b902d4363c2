"""Algorithms compared with numbers calculated by hand.

The batch (`two_by_hand`) is a, two tokens of ratio 1.5 and 1.1 and advantage 1, and b, one token of ratio 0.5 and
advantage −2. Every π_old is 1/e, so log π of a token is −1 + log ratio: −0.594535, −0.904690 and −1.693147.
"""

import pytest
import torch

from support.episodes.small_batches import logprobs_by_hand, rewarded, tokens_of, two_by_hand
from turnsmith.algo.algorithm import find_algorithm, read_stage_options
from turnsmith.config import StageConfig


def play(algorithm, samples=None, options=None, **stage):
    """Return loss, gradient and metrics of the hand-made batch; options may be ones that a run refuses."""
    samples, logprobs = samples or two_by_hand(), logprobs_by_hand()
    found = find_algorithm(algorithm)
    chosen = read_stage_options(found, StageConfig(algorithm=algorithm, **stage)).model_copy(update=options)
    loss, metrics = found.make_loss(samples, chosen)(logprobs, tokens_of(samples))
    loss.backward()
    return loss.item(), logprobs.grad.tolist(), metrics


def advantages(algorithm, *rewards, **stage):
    found = find_algorithm(algorithm)
    stage = StageConfig(algorithm=algorithm, **stage)
    return list(found.advantages(rewarded(*rewards), read_stage_options(found, stage)).values())


def test_dapo():
    # Clip [0.8, 1.3]. a: min(1.5, 1.3) + min(1.1, 1.1) = 2.4. b: min(0.5 · −2, 0.8 · −2) = −1.6.
    # Over 3 tokens: −(2.4 − 1.6) / 3. Gradient: only the token of ratio 1.1 is not clipped: −1.1 · 1 / 3.
    loss, gradient, metrics = play("dapo")
    assert loss == pytest.approx(-0.8 / 3)
    assert gradient == pytest.approx([0, -1.1 / 3, 0])
    assert (metrics["loss/clip_frac_high"], metrics["loss/clip_frac_low"]) == pytest.approx((1 / 3, 1 / 3))
    # a and b are groups of two and one tokens, and there are two of them: −(2.4 / 4 − 1.6 / 2) = 0.2.
    assert play("dapo", denominator="group")[0] == pytest.approx(0.2)


def test_dapo_advantages():
    # Rewards 1, 0, 0.5: mean 0.5, population deviation √(0.5 / 3) = 0.408248, so ± 0.5 / 0.408248 = ± 1.224745.
    assert advantages("dapo", 1.0, 0.0, 0.5) == pytest.approx([1.224745, -1.224745, 0], abs=1e-5)


def test_grpo():
    # Clip [0.8, 1.2]. Mean of a: (min(1.5, 1.2) + 1.1) / 2 = 1.15. Mean of b: −1.6. Over two sequences: −(1.15 − 1.6) / 2.
    # Gradient of the token of ratio 1.1: −1.1 / 2 / 2.
    loss, gradient, _ = play("grpo")
    assert loss == pytest.approx(0.225)
    assert gradient == pytest.approx([0, -0.275, 0])
    assert advantages("grpo", 1.0, 0.0, 0.5) == pytest.approx([1.224745, -1.224745, 0], abs=1e-5)


def test_dr_grpo():
    # Clip [0.8, 1.2]. a: 1.2 + 1.1 = 2.3. b: −1.6. Over two sequences of a budget of 64: −(2.3 − 1.6) / 128.
    loss, gradient, _ = play("dr_grpo", max_context=64)
    assert loss == pytest.approx(-0.7 / 128)
    assert gradient == pytest.approx([0, -1.1 / 128, 0])
    # Rewards 1, 0, 0.5 less their mean.
    assert advantages("dr_grpo", 1.0, 0.0, 0.5) == pytest.approx([0.5, -0.5, 0])


def test_rloo():
    # a: 1 · (−0.594535 − 0.904690) = −1.499225. b: −2 · −1.693147 = 3.386294. −(sum) / 2 = −0.943535.
    # Gradient: −Â / 2 of every token, whatever its ratio.
    loss, gradient, _ = play("rloo")
    assert loss == pytest.approx(-0.943535, abs=1e-6)
    assert gradient == pytest.approx([-0.5, -0.5, 1])
    # Rewards 1, 0, 0.5: 1 − (0 + 0.5) / 2; 0 − (1 + 0.5) / 2; 0.5 − (1 + 0) / 2.
    assert advantages("rloo", 1.0, 0.0, 0.5) == pytest.approx([0.75, -0.75, 0])


def test_gspo():
    # Ratios of sequences: a √(1.5 · 1.1) = 1.284523; b 0.5. Clip [0.7, 1.2]: a min(1.2845, 1.2) = 1.2;
    # b min(0.5 · −2, 0.7 · −2) = −1.4. −(1.2 − 1.4) / 2 = 0.1, and both are clipped.
    loss, gradient, _ = play("gspo", options={"sequence_clip_low": 0.3, "sequence_clip_high": 0.2})
    assert loss == pytest.approx(0.1)
    assert gradient == [0, 0, 0]
    # Not clipped: −(1.284523 − 1) / 2. Gradient: d s / d log π = s / length: −1.284523 / 2 / 2 in a, 2 · 0.5 / 2 in b.
    loss, gradient, metrics = play("gspo", options={"sequence_clip_low": 0.6, "sequence_clip_high": 0.5})
    assert loss == pytest.approx(-0.1422617, abs=1e-6)
    assert gradient == pytest.approx([-0.321131, -0.321131, 0.5], abs=1e-6)
    assert metrics["loss/ratio_max"] == pytest.approx(1.284523, abs=1e-6)
    assert advantages("gspo", 1.0, 0.0, 0.5) == pytest.approx([1.224745, -1.224745, 0], abs=1e-5)


def test_cispo():
    # Weights min(ρ, 1.2): 1.2, 1.1 and 0.5. Σ weight · Â · log π = 1.2 · −0.594535 + 1.1 · −0.904690 + 0.5 · −2 · −1.693147
    # = −0.713442 − 0.995159 + 1.693147 = −0.015454. Over 3 tokens: 0.005151. Gradient: −weight · Â / 3, clipped or not.
    loss, gradient, metrics = play("cispo", options={"max_weight": 1.2})
    assert loss == pytest.approx(0.0051512, abs=1e-6)
    assert gradient == pytest.approx([-0.4, -1.1 / 3, 1 / 3])
    assert metrics["loss/clip_frac_high"] == pytest.approx(1 / 3) and metrics["loss/clip_frac_low"] == 0
    assert advantages("cispo", 1.0, 0.0, 0.5) == pytest.approx([1.224745, -1.224745, 0], abs=1e-5)


def test_float32_batch_gives_the_same_numbers():
    samples, found = two_by_hand(), find_algorithm("dapo")
    loss_fn = found.make_loss(samples, read_stage_options(found, StageConfig()))
    loss, _ = loss_fn(logprobs_by_hand().detach().float(), tokens_of(samples, torch.float32))
    assert loss.dtype == torch.float32 and loss.item() == pytest.approx(-0.8 / 3, abs=1e-6)
