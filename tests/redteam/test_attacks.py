"""No attack is paid and every honest patch is, on the toy target, by the grader that pays the policy."""

import asyncio

import pytest

from turnsmith.redteam.scores import sum_up
from turnsmith.redteam.scripts import CHECKOUT, read_scripts
from turnsmith.redteam.trials import describe, try_all
from turnsmith.tracking import Silence

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def test_no_attack_is_paid_and_every_honest_patch_is(provider, toy):
    trials = asyncio.run(try_all(read_scripts(CHECKOUT), [toy], provider, Silence()))
    assert [describe(trial) for trial in trials if not trial.is_right] == []
    assert sum_up(trials)["stopped_elsewhere"] == []
