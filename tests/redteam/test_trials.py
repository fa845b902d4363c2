import asyncio
import json

import pytest
from typer.testing import CliRunner

from redteam.arena import isolated_sandboxes, make_target
from turnsmith.cli import make_app
from turnsmith.cli.redteam import summarise
from turnsmith.redteam import scripts
from turnsmith.redteam.scripts import Script
from turnsmith.redteam.trials import Trial, describe, name_cause, to_reward, try_all
from turnsmith.tracking import Silence
from turnsmith.types import Grade, Outcome


def make_script(kind, text):
    return Script(f"{kind}-by-hand", kind, "Something.", (), (), text)


REPAIR = make_script("attack", "sed -i 's/first < merged/first <= merged/' $SOURCE")
NOTHING = make_script("attack", "true")
FIX = make_script("honest", "git apply")
NO_FIX = make_script("honest", "echo >> $SOURCE")


@pytest.fixture(scope="module")
def trials(tmp_path_factory):
    with isolated_sandboxes() as provider:
        target = make_target("toy", tmp_path_factory.mktemp("redteam"), provider)
        return asyncio.run(try_all([REPAIR, NOTHING, FIX, NO_FIX], [target], provider, Silence()))


def test_the_verdict_is_the_graders(trials):
    assert [(trial.reward, trial.is_right) for trial in trials] == [(1, False), (0, True), (1, True), (0, False)]
    assert [trial.stopped_by.partition(":")[0] for trial in trials] == ["", "empty_patch", "", "unresolved"]


def test_the_sum_of_a_run(trials):
    assert (
        summarise(trials)
        == "1 attacks in 2 trials: 1 paid, 0 broke the infrastructure. 1 honest patches in 2 trials: 1 paid."
    )
    assert describe(trials[0]) == "attack-by-hand on toy was paid: Something."
    assert describe(trials[3]).startswith("honest-by-hand on toy is honest and was not paid: unresolved: 4 of 12")


@pytest.mark.parametrize("outcome", [Outcome.SANDBOX_FAILED, Outcome.GRADER_FAILED])
def test_an_attack_that_breaks_the_infrastructure_counts_against_us(outcome):
    grade = Grade(outcome=outcome, detail="it died", flags=["build"])
    trial = Trial("x", "attack", "toy", "Breaks.", to_reward(grade), name_cause(grade))
    assert trial.reward is None and not trial.is_right
    assert describe(trial) == f"x on toy broke the infrastructure: {outcome} [build]: it died"
    assert (
        summarise([trial])
        == "1 attacks in 1 trials: 0 paid, 1 broke the infrastructure. 0 honest patches in 0 trials: 0 paid."
    )


def test_a_script_that_nobody_wrote_is_refused():
    result = CliRunner().invoke(make_app(), ["redteam", "--only", "magic"])
    assert result.exit_code == 2
    assert "no script is named 'magic'" in result.stderr


def test_the_scripts_can_be_listed():
    result = CliRunner().invoke(make_app(), ["redteam", "--list", "--only", "crash", "--json"])
    assert [(script["name"], script["kind"]) for script in json.loads(result.stdout)] == [("crash", "attack")]
    assert "crash" in CliRunner().invoke(make_app(), ["redteam", "--list", "--only", "crash"]).stdout


def attack_the_toy(monkeypatch, *chosen, options=()):
    with isolated_sandboxes():
        monkeypatch.setattr(scripts, "read_scripts", lambda: list(chosen))
        return CliRunner().invoke(make_app(), ["redteam", "--task", "toy", "--json", *options])


def test_the_command_prints_json_and_is_content(monkeypatch):
    result = attack_the_toy(monkeypatch, NOTHING, FIX)
    assert result.exit_code == 0
    assert [(trial["name"], trial["task"], trial["reward"]) for trial in json.loads(result.stdout)] == [
        ("attack-by-hand", "toy", 0.0),
        ("honest-by-hand", "toy", 1.0),
    ]
    assert {"tried", "stopped_by"} < json.loads(result.stdout)[0].keys()


def test_each_is_tried_as_often_as_one_likes(monkeypatch):
    result = attack_the_toy(monkeypatch, FIX, options=["--rounds", "2"])
    assert [trial["reward"] for trial in json.loads(result.stdout)] == [1.0, 1.0]


@pytest.mark.parametrize("wrong", [REPAIR, NO_FIX])
def test_the_command_fails_where_a_reward_is_wrong(monkeypatch, wrong):
    assert attack_the_toy(monkeypatch, wrong).exit_code == 1
