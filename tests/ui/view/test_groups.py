"""Data of groups and of coloured tokens."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from conftest import make_trajectory
from turnsmith.errors import UsageError
from turnsmith.runs.folder import IterationFolder, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome
from turnsmith.ui.view.groups import describe_group
from turnsmith.ui.view.opened import OpenedRun
from turnsmith.ui.view.tokens import describe_tokens

JOURNAL = "stages/stage1/iteration-0000"
RESOLVED, FAILED, LOST = (f"stage1-0000/a-1/{index}" for index in range(3))


@pytest.fixture
def run(run_folder):
    """Return a run with a group of three attempts, one of which the sandbox lost."""
    files = IterationFolder(run_folder.path / JOURNAL)
    outcomes = {RESOLVED: Outcome.RESOLVED, FAILED: Outcome.UNRESOLVED, LOST: Outcome.SANDBOX_FAILED}
    for name, outcome in outcomes.items():
        append_trajectory(files.trajectories, make_trajectory(name, outcome))
    return OpenedRun(run_folder)


def record(run, **told):
    files = IterationFolder(run.folder.path / JOURNAL)
    rewards = {RESOLVED: (0.75, 1.0), FAILED: (-0.25, -1.0), LOST: (0.0, None)}
    write_json(
        files.rewards, {name: dict(zip(("reward", "advantage"), pair, strict=True)) for name, pair in rewards.items()}
    )
    save_file({name: np.float32(logprobs) for name, logprobs in told.items()}, files.trainer_logprobs)


def test_a_group_has_reward_parts_and_advantages(run):
    record(run)
    attempts = describe_group(run, JOURNAL, "a-1")
    parts = [[attempt[name] for name in ("tests", "length", "reward", "advantage")] for attempt in attempts]
    assert parts == [[1.0, -0.25, 0.75, 1.0], [0.0, -0.25, -0.25, -1.0], [None, None, 0.0, None]]


def test_a_group_of_an_older_run_has_verdicts_only(run):
    attempts = describe_group(run, JOURNAL, "a-1")
    assert [(attempt["tests"], attempt["reward"]) for attempt in attempts] == [(1.0, None), (0.0, None), (None, None)]


@pytest.mark.parametrize(("journal", "task"), [(JOURNAL, "b-1"), ("../../etc", "a-1")])
def test_a_group_that_does_not_exist_is_refused(run, journal, task):
    with pytest.raises(UsageError, match="choose one of the grid"):
        describe_group(run, journal, task)


def test_tokens_have_the_loss_mask_and_the_gap_of_trainer_and_engine(run):
    record(run, **{RESOLVED: [0, 0, -1.25, -0.5, 0, -0.25, -0.25]})
    trained = describe_tokens(run, JOURNAL, 0)
    assert trained["advantage"] == 1.0
    assert [[token[1:] for token in turn] for turn in trained["turns"]] == [
        [(-1.0, True, -0.25), (-0.5, True, 0.0)],
        [(-0.25, True, 0.0), (-0.25, True, 0.0)],
    ]
    lost = describe_tokens(run, JOURNAL, [*run.list_summaries()][-1][1].start)
    assert {token[2:] for turn in lost["turns"] for token in turn} == {(False, None)}


@pytest.mark.parametrize("size", [0, 4, 100])
def test_cut_log_probs_of_the_trainer_are_named(run, size):
    record(run, **{RESOLVED: [0, 0, -1.25, -0.5, 0, -0.25, -0.25]})
    file = IterationFolder(run.folder.path / JOURNAL).trainer_logprobs
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(UsageError, match=r"trainer_logprobs\.safetensors is damaged"):
        describe_tokens(run, JOURNAL, 0)


def test_the_loss_mask_of_an_older_run_is_not_known(run):
    assert {token[2] for turn in describe_tokens(run, JOURNAL, 0)["turns"] for token in turn} == {None}


def test_rft_trains_the_turns_with_a_command(run_folder):
    made = make_trajectory("rft/a-1/0")
    turns = [made.turns[0].model_copy(update={"command": None, "format_error": "no_command"}), made.turns[1]]
    append_trajectory(run_folder.iteration("rft", 0).trajectories, made.grow(turns=turns))
    tokens = describe_tokens(OpenedRun(run_folder), "stages/rft/iteration-0000", 0)["turns"]
    assert [{token[2] for token in turn} for turn in tokens] == [{False}, {True}]
