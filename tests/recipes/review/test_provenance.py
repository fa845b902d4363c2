"""Trajectories without digests are refused before any rollout."""

import pytest

from turnsmith.errors import UsageError
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.review.provenance import trace_run
from turnsmith.recipes.rft import collect as collect_for_rft
from turnsmith.recipes.rl import collect
from turnsmith.rollouts.samples import refuse_unproven
from turnsmith.runs.folder import RunFolder, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.types import Outcome

from ..conftest import RFT, STAGE, make_attempt


def without_digest(attempt):
    return attempt.grow(turns=[turn.model_copy(update={"digest": ""}) for turn in attempt.turns])


async def test_rl_trajectories_without_digests_are_refused(make_run):
    iteration = Iteration(0, STAGE, make_run())
    append_trajectory(iteration.files.trajectories, without_digest(make_attempt("one/a/0", Outcome.RESOLVED)))
    with pytest.raises(UsageError, match=r"one/a/0 .*digest.*trajectories.jsonl.* resume"):
        await collect(iteration, iteration.run.train_tasks)


async def test_rft_trajectories_without_digests_are_refused(make_run):
    run = make_run()
    append_trajectory(
        run.folder.iteration("rft", 0).trajectories, without_digest(make_attempt("rft/a/0", Outcome.RESOLVED))
    )
    with pytest.raises(UsageError, match=r"rft/a/0 .*digest"):
        await collect_for_rft(RFT, run.train_tasks, run)


def test_an_incomplete_journal_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.config, {})
    append_trajectory(folder.iteration("one", 0).trajectories, make_attempt("one/a/0", Outcome.ENGINE_FAILED))
    assert trace_run(folder).lost == 1
    write_json(folder.iteration("one", 0).metrics, {"rollouts/collected": 2.0})
    with pytest.raises(UsageError, match="1 of 2 trajectories"):
        trace_run(folder)


def test_trajectories_that_never_train_need_no_digest(tmp_path):
    lost = without_digest(make_attempt("one/a/0", Outcome.ENGINE_FAILED))
    refuse_unproven([lost, make_attempt("one/a/1", Outcome.RESOLVED)], tmp_path)
