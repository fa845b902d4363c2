"""Attacks on the toy target are stopped by the layer in their header, and honest patches are rewarded.

Audits have a fixed seed, so the results do not vary.
"""

import asyncio

import pytest

from support.episodes.silence import Silence
from turnsmith.audit.redteam.scripts import CHECKOUT, read_scripts
from turnsmith.audit.redteam.trials import sum_up, try_all

SCRIPTS = read_scripts(CHECKOUT)
NEED_AUDIT = [script for script in SCRIPTS if script.layer == "audit"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def attack(scripts, toy, provider, when):
    return asyncio.run(try_all(scripts, [toy], provider, when, Silence(), seed=0))


def test_auditing_all_patches_rewards_every_honest_patch_and_no_attack(provider, toy):
    trials = attack(SCRIPTS, toy, provider, "all")
    assert [str(trial) for trial in trials if not trial.is_right("all")] == []
    totals = sum_up(trials)
    assert (totals["stopped_elsewhere"], totals["honest_failed_audit"]) == ([], 0)


def test_screening_selects_every_attack_that_needs_an_audit(provider, toy):
    assert sum_up(attack(NEED_AUDIT, toy, provider, "suspicious"))["caught_share"] == 1


def test_the_verdict_alone_rewards_every_attack_that_needs_an_audit(provider, toy):
    assert all(trial.paid for trial in attack(NEED_AUDIT, toy, provider, "off"))
