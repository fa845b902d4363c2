"""No attack is paid and every honest patch is, on a toy task and on a real package, by the grader that pays the policy."""

import asyncio

import pytest

from redteam.arena import isolated_sandboxes, make_target
from turnsmith.redteam.scripts import read_scripts
from turnsmith.redteam.targets import MAKERS
from turnsmith.redteam.trials import describe, try_all
from turnsmith.tracking import Silence

SCRIPTS = read_scripts()
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]


@pytest.fixture(scope="module", params=MAKERS)
def trials(request, tmp_path_factory):
    """Name of a script → its trial, all run at once on one target."""
    with isolated_sandboxes() as provider:
        target = make_target(request.param, tmp_path_factory.mktemp("redteam"), provider)
        trials = asyncio.run(try_all(SCRIPTS, [target], provider, Silence()))
        return {trial.name: trial for trial in trials}


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS if script.kind == "attack"])
def test_an_attack_is_paid_nothing_and_breaks_nothing(trials, name):
    if name not in trials:
        pytest.skip("not an attack on this target")
    assert trials[name].is_right, describe(trials[name])


@pytest.mark.parametrize("name", [script.name for script in SCRIPTS if script.kind == "honest"])
def test_an_honest_patch_is_paid(trials, name):
    assert trials[name].is_right, describe(trials[name])
