"""What stops each attack on the toy target is the layer that its header names, and every honest patch is paid."""

import asyncio

import pytest

from turnsmith.redteam.scripts import CHECKOUT, read_scripts
from turnsmith.redteam.trials import try_all
from turnsmith.tracking import Silence

SCRIPTS = read_scripts(CHECKOUT)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


def test_the_verdict_pays_for_honest_patches_and_for_attacks_that_need_an_audit_and_for_nothing_else(provider, toy):
    trials = asyncio.run(try_all(SCRIPTS, [toy], provider, "off", Silence()))
    pays = {trial.script.name: trial.paid for trial in trials}
    assert pays == {script.name: script.layer != "verdict" for script in SCRIPTS}
