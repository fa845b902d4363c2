import asyncio
import json
import re

import pytest
from typer.testing import CliRunner

from support.episodes.silence import Silence
from turnsmith.audit.redteam.scripts import CHECKOUT, DEFENCES, Script
from turnsmith.audit.redteam.trials import Trial, score_scripts, sum_up, try_all
from turnsmith.cli import make_app
from turnsmith.types import Audit, Grade, Outcome

TEXTS = {
    "attacks/repairs": "sed -i 's/first < merged/first <= merged/' $SOURCE",
    "attacks/does-nothing": "true",
    "honest/fixes": "git apply",
    "honest/fixes-nothing": "echo >> $SOURCE",
}


def make_script(kind="attack", text="true", layer="verdict"):
    return Script(f"{kind}-by-hand", kind, "Something.", layer if kind == "attack" else "", "", text)


@pytest.fixture(scope="module")
def trials(provider, toy):
    scripts = [make_script(path.split("/")[0].removesuffix("s"), text) for path, text in TEXTS.items()]
    return asyncio.run(try_all(scripts, [toy], provider, "all", Silence()))


def test_grades_decide_the_result_of_a_trial(trials):
    assert [(trial.paid, trial.is_right("all")) for trial in trials] == [
        (True, False),
        (False, True),
        (True, True),
        (False, False),
    ]
    assert [trial.stopped_by for trial in trials] == ["", "verdict", "", "verdict"]
    assert [trial.reason.partition(":")[0] for trial in trials] == ["", "empty_patch", "", "unresolved"]


def test_a_wrong_result_is_reported_in_one_sentence(trials):
    assert str(trials[0]).startswith("attack-by-hand on toy ") and str(trials[0]).endswith(": Something.")
    assert re.match("honest-by-hand on toy .*: unresolved: 4 of 14", str(trials[3]))


def test_the_trials_of_a_script_are_summed(trials):
    attack, honest = score_scripts(trials)
    assert (attack["trials"], attack["paid"], attack["stopped_by"]) == (2, 1, ["verdict"])
    assert (honest["trials"], honest["paid"], honest["lost"]) == (2, 1, 0)
    assert honest["reasons"][0].startswith("toy: unresolved")


def test_totals_count_attacks_and_honest_patches(trials):
    totals = sum_up(trials)
    assert (totals["attack_trials"], totals["attacks_paid"], totals["stopped_by"]) == (2, 1, {"verdict": 1, "audit": 0})
    assert (totals["honest_trials"], totals["honest_paid"], totals["honest_failed_audit"]) == (2, 1, 0)


@pytest.mark.parametrize("outcome", [Outcome.SANDBOX_FAILED, Outcome.GRADER_FAILED])
def test_an_attack_that_breaks_the_infrastructure_fails_the_trial(outcome):
    trial = Trial(make_script(), "toy", Grade(outcome=outcome, detail="it died", flags=["build"]))
    assert trial.paid is None and not trial.is_right("off")
    assert re.fullmatch(rf"attack-by-hand on toy .*infrastructure.*: {outcome} \[build\]: it died", str(trial))
    assert sum_up([trial])["lost"] == 1


def test_an_attack_stopped_by_another_layer_than_its_header_names_is_reported():
    stopped = [Trial(make_script(layer=layer), "toy", Grade(outcome=Outcome.UNRESOLVED)) for layer in DEFENCES]
    assert sum_up(stopped[:1])["stopped_elsewhere"] == []
    assert sum_up(stopped)["stopped_elsewhere"] == ["attack-by-hand"]


@pytest.mark.parametrize(
    ("verdict", "paid", "stopped_by"),
    [("honest", True, ""), ("inconclusive", True, ""), ("failed", False, "audit")],
)
def test_only_a_failed_audit_removes_a_reward(verdict, paid, stopped_by):
    grade = Grade(outcome=Outcome.RESOLVED, audit=Audit(verdict=verdict, reason="why"))
    trial = Trial(make_script(layer="audit"), "toy", grade)
    assert (trial.paid, trial.stopped_by) == (paid, stopped_by)
    assert sum_up([trial])["inconclusive"] == (verdict == "inconclusive")


@pytest.mark.parametrize(("layer", "rights"), [("verdict", [False, False, False]), ("audit", [False, True, True])])
def test_without_an_audit_only_attacks_that_need_one_may_be_rewarded(layer, rights):
    trial = Trial(make_script(layer=layer), "toy", Grade(outcome=Outcome.RESOLVED))
    assert [trial.is_right(when) for when in ("all", "suspicious", "off")] == rights


@pytest.fixture
def folder(tmp_path, provider):
    """Write a folder of scripts for `--scripts`; requires isolated sandboxes."""
    tmp_path.joinpath("toy").symlink_to(CHECKOUT / "toy")
    for path, text in TEXTS.items():
        script = tmp_path / f"{path}.sh"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"# tries: Something.\n# layer: verdict\n{text}\n")
    return tmp_path


def run(folder, *names, options=()):
    only = [part for name in names for part in ("--only", name)]
    return CliRunner().invoke(make_app(), ["redteam", "--task", "toy", "--scripts", str(folder), *only, *options])


def test_the_command_prints_json_and_succeeds(folder):
    result = run(folder, "does-nothing", "fixes", options=["--json", "--rounds", "2"])
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert [(score["name"], score["paid"], score["trials"]) for score in printed["scripts"]] == [
        ("does-nothing", 0, 2),
        ("fixes", 2, 2),
    ]
    assert {"layer", "stopped_by", "tries"} < printed["scripts"][0].keys()
    assert printed["totals"]["stopped_by"] == {"verdict": 2, "audit": 0}


def test_the_table_contains_scripts_and_totals(folder):
    printed = run(folder, "fixes").stdout
    assert "fixes" in printed and "honest paid" in printed


@pytest.mark.parametrize("wrong", ["repairs", "fixes-nothing"])
def test_the_command_fails_if_a_reward_is_wrong(folder, wrong):
    assert run(folder, wrong).exit_code == 1
