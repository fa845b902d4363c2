"""What stops each attack on the toy target is the layer that its header names, and every honest patch is paid.

Audits have a seed, so that no attack is missed by chance.
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


def test_with_all_audited_no_attack_is_paid_and_every_honest_patch_is(provider, toy):
    trials = attack(SCRIPTS, toy, provider, "all")
    assert [str(trial) for trial in trials if not trial.is_right("all")] == []
    totals = sum_up(trials)
    assert (totals["stopped_elsewhere"], totals["honest_convicted"]) == ([], 0)


def test_the_screen_sends_every_attack_that_needs_it_to_the_audit(provider, toy):
    assert sum_up(attack(NEED_AUDIT, toy, provider, "suspicious"))["caught_share"] == 1


def test_the_verdict_alone_pays_for_every_attack_that_needs_an_audit(provider, toy):
    assert all(trial.paid for trial in attack(NEED_AUDIT, toy, provider, "off"))
