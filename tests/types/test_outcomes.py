"""Independence of results from infrastructure failures: advantages, groups, losses, curriculum and evaluations.

An iteration with lost rollouts anywhere, whatever they contain, trains and reports the same as one without them.
"""

import asyncio
import tempfile
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from support.episodes.digests import with_digests
from support.episodes.silence import Silence
from support.models.small_models import make_model
from turnsmith.algo.advantages import has_signal
from turnsmith.algo.algorithm import choose_algorithm
from turnsmith.algo.losses import batch_denominator, group_denominators
from turnsmith.algo.packing import split_batches
from turnsmith.algo.shaping import permute_rewards
from turnsmith.config import EvalConfig, GapConfig, OptimizerConfig, RunConfig, StageConfig
from turnsmith.errors import UsageError
from turnsmith.recipes import rft
from turnsmith.recipes.context import Iteration
from turnsmith.recipes.curriculum import apply_curriculum
from turnsmith.recipes.evaluate import summarise
from turnsmith.recipes.metrics import describe
from turnsmith.recipes.rl import learn
from turnsmith.rollouts.samples import to_groups, to_samples
from turnsmith.runs.folder import RunFolder
from turnsmith.runs.journal import append_trajectory
from turnsmith.tasks.task_set import TaskSet
from turnsmith.training.local import LocalTrainer
from turnsmith.types import OUTCOMES, Audit, Group, Outcome, Sample, StopReason, Task, Trajectory, Turn

LOST = [outcome for outcome, rule in OUTCOMES.items() if not rule.in_group]
COUNTED = [outcome for outcome, rule in OUTCOMES.items() if rule.in_group]
TASKS = "abc"
NUM_RUNS = 3
OPTIMIZER = OptimizerConfig(learning_rate=1e-2, max_tokens_per_micro_batch=64)
CONFIG = RunConfig(
    train_tasks={"practice_tasks": 1}, stages=[StageConfig()], logprob_gap=GapConfig(warn=50.0, stop=100.0)
)

endings = st.tuples(st.sampled_from(COUNTED), st.integers(1, 6))
losses = st.tuples(st.sampled_from(TASKS), st.integers(0, 9), st.sampled_from(LOST), st.integers(0, 40))
"""Lost rollouts: task, sibling index, outcome, turns."""
rewards = st.floats(allow_nan=True, allow_infinity=True)
iterations = st.fixed_dictionaries({task: st.lists(endings, min_size=1, max_size=5) for task in TASKS})
stages = st.builds(
    StageConfig,
    max_turns=st.just(8),
    length_threshold=st.integers(1, 8),
    batch_size=st.integers(1, 4),
    zero_advantage=st.sampled_from(["final", "resolved"]),
    denominator=st.sampled_from(["batch", "group"]),
    permute_rewards=st.booleans(),
)


def make(task: str, name: str, outcome: Outcome, num_turns: int, index: int = 0) -> Trajectory:
    """Make a trajectory of three tokens per turn after a prompt of two, with constant log-probs."""
    num = 2 + 3 * num_turns
    made = Trajectory(
        trajectory_id=f"s/{task}/{name}", group_id=f"s/{task}", index=index, instance_id=task, iteration=0, seed=0,
        token_ids=[(5 * at + len(name) + ord(task)) % 61 for at in range(num)], sampled=[at > 1 for at in range(num)],
        logprobs=[-1.0 if at > 1 else 0.0 for at in range(num)],
        turns=[Turn(start=2 + 3 * at, end=5 + 3 * at, text="", command="ls") for at in range(num_turns)],
        stop_reason=StopReason.SUBMITTED, outcome=outcome, prompt_tokens=2,
    )  # fmt: skip
    return with_digests(made)


def make_iteration(members: dict) -> list[Trajectory]:
    return [make(task, str(at), *ending, index=at) for task, row in members.items() for at, ending in enumerate(row)]


def with_losses(trajectories: list[Trajectory], lost: list) -> list[Trajectory]:
    """Insert lost siblings at any places."""
    rows = {task: list(row) for task, row in groupby(trajectories, key=lambda t: t.instance_id)}
    for number, (task, place, outcome, num_turns) in enumerate(lost):
        rows[task].insert(place, make(task, f"lost{number}", outcome, num_turns))
    return [trajectory for row in rows.values() for trajectory in row]


def grouped(trajectories: list[Trajectory], stage: StageConfig, carried: list[float] | None = None) -> list[Group]:
    """Group an iteration as the recipe does; lost members carry arbitrary rewards."""
    groups = [carrying(group, carried or [0.0]) for group in to_groups(trajectories, stage)]
    return permute_rewards(groups, seed=1) if stage.permute_rewards else groups


def carrying(group: Group, carried: list[float]) -> Group:
    rows = enumerate(zip(group.trajectories, group.rewards, strict=True))
    changed = [carried[at % len(carried)] if t.outcome in LOST else reward for at, (t, reward) in rows]
    return group.model_copy(update={"rewards": changed})


def lesson(groups: list[Group], stage: StageConfig) -> list:
    """Return everything that reaches the loss: groups, samples with advantages, batches and denominators."""
    kept = [group for group in groups if has_signal(group, stage.zero_advantage)]
    advantages, _ = choose_algorithm(stage)
    samples = [sample for group in kept for sample in to_samples(group, advantages(group))]
    batches = split_batches(samples, stage.batch_size, seed=2)
    denominators = [(batch_denominator(batch), group_denominators(batch)) for batch in batches]
    return [
        [group.trajectories[0].instance_id for group in kept],
        [[to_plain(s) for s in batch] for batch in batches],
        denominators,
    ]


def to_plain(sample: Sample) -> tuple:
    return sample.trajectory_id, {name: column.tolist() for name, column in sample.columns().items()}


def test_outcomes_have_exactly_two_rules():
    for rule in OUTCOMES.values():
        assert rule.in_loss == rule.in_group == rule.in_evaluation == (not rule.retried)
    assert set(LOST) == {Outcome.UNGRADED, Outcome.SANDBOX_FAILED, Outcome.ENGINE_FAILED, Outcome.GRADER_FAILED}
    assert OUTCOMES.keys() == set(Outcome)


@given(iterations, st.lists(losses, min_size=1, max_size=8), st.lists(rewards, min_size=1, max_size=4), stages)
def test_infrastructure_outcomes_do_not_change_the_training_data(members, lost, carried, stage):
    clean = make_iteration(members)
    mixed = with_losses(clean, lost)
    assert lesson(grouped(mixed, stage, carried), stage) == lesson(grouped(clean, stage), stage)


@given(iterations, st.lists(losses, min_size=1, max_size=8), st.lists(rewards, min_size=1, max_size=4), stages)
def test_infrastructure_outcomes_do_not_change_the_metrics(members, lost, carried, stage):
    def told(groups):
        metrics = describe(groups)
        return {name: value for name, value in metrics.items() if name.startswith(("reward/", "rollouts/")) and
                name not in ("rollouts/collected", "rollouts/gradings_shared")}  # fmt: skip

    clean = make_iteration(members)
    mixed = with_losses(clean, lost)
    assert told(grouped(mixed, stage, carried)) == told(grouped(clean, stage))


@settings(max_examples=8)
@given(iterations, st.lists(losses, min_size=1, max_size=4), st.lists(rewards, min_size=1, max_size=4), stages)
def test_infrastructure_outcomes_do_not_change_the_new_weights(members, lost, carried, stage):
    def weights_after(groups):
        trainer = LocalTrainer(make_model(), OPTIMIZER)
        with tempfile.TemporaryDirectory() as folder:
            run = SimpleNamespace(config=CONFIG, progress=Silence(), folder=RunFolder(Path(folder)))
            asyncio.run(learn(trainer, groups, Iteration(0, stage, run)))
        return list(trainer.model.parameters())

    torch.set_num_threads(1)
    clean = make_iteration(members)
    mixed = with_losses(clean, lost)
    pairs = zip(weights_after(grouped(mixed, stage, carried)), weights_after(grouped(clean, stage)), strict=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in pairs)


@pytest.mark.parametrize("lost", LOST)
def test_group_with_one_remaining_member_is_dropped(lost):
    [group] = to_groups([make("a", "0", Outcome.RESOLVED, 1), make("a", "1", lost, 1)], StageConfig())
    for rule in ("final", "resolved"):
        assert not has_signal(carrying(group, [-7.0]), rule)
    advantages, _ = choose_algorithm(StageConfig())
    assert to_samples(group, advantages(carrying(group, [-7.0]))) == []


@given(iterations, st.lists(losses, max_size=8))
def test_infrastructure_outcomes_do_not_change_the_curriculum(members, lost):
    def kept(trajectories):
        pool = TaskSet("train", [make_task(task) for task in TASKS], Path("tasks.jsonl"))
        with tempfile.TemporaryDirectory() as folder:
            for trajectory in trajectories:
                append_trajectory(RunFolder(Path(folder)).iteration("one", 0).trajectories, trajectory)
            try:
                return apply_curriculum(pool, RunFolder(Path(folder)), "one").tasks
            except UsageError:
                return []

    clean = make_iteration(members)
    assert kept(with_losses(clean, lost)) == kept(clean)


def make_task(name: str) -> Task:
    return Task(
        instance_id=name, repo="r", base_commit="0", problem_statement="p", FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="",
        layers=["layer"],
    )  # fmt: skip


attempted = st.fixed_dictionaries({task: st.lists(endings, min_size=NUM_RUNS, max_size=NUM_RUNS) for task in TASKS})
EVAL = EvalConfig(num_runs=NUM_RUNS, k=2)


@given(attempted, st.lists(st.sampled_from(LOST), min_size=1, max_size=3), st.integers(0, 40))
def test_fully_lost_task_and_run_do_not_change_an_evaluation(members, lost, num_turns):
    clean = make_iteration(members)
    row = [make("z", str(at), lost[at % len(lost)], num_turns, at) for at in range(NUM_RUNS)]
    wider = with_losses(clean, [(task, NUM_RUNS, lost[0], num_turns) for task in TASKS])
    expected = facts(summarise("base", "set", clean, EVAL))
    assert facts(summarise("base", "set", [*clean, *row], EVAL)) == expected
    assert facts(summarise("base", "set", wider, EVAL.model_copy(update={"num_runs": NUM_RUNS + 1}))) == expected


@given(
    attempted,
    st.sets(st.integers(0, 3 * NUM_RUNS - 1), max_size=3 * NUM_RUNS - 1),
    st.lists(st.tuples(st.sampled_from(LOST), st.integers(0, 40)), min_size=2, max_size=2),
)
def test_pass_at_1_uses_only_counted_attempts(members, places, fates):
    def losing(outcome, num_turns):
        spoilt = [
            make(t.instance_id, "lost", outcome, num_turns, t.index) if at in places else t
            for at, t in enumerate(clean)
        ]
        return facts(summarise("base", "set", spoilt, EVAL))

    clean = make_iteration(members)
    one, other = (losing(*fate) for fate in fates)
    runs = [[t.resolved for at, t in enumerate(clean) if at % NUM_RUNS == run and at not in places]
            for run in range(NUM_RUNS)]  # fmt: skip
    rates = [sum(run) / len(run) for run in runs if run]
    assert one == other
    assert one["pass_at_1"] == pytest.approx(sum(rates) / len(rates))


def facts(result) -> dict:
    """Return an evaluation's results without its counts of losses and requested runs."""
    losses = {"outcomes", "num_lost", "lost_per_task", "num_tasks_in_set", "pass_at_1_bounds", "pass_at_k_bounds"}
    return result.model_dump(exclude=losses | {"num_runs"})


@given(iterations, st.lists(losses, min_size=1, max_size=8))
def test_infrastructure_outcomes_do_not_change_rft_data(members, lost):
    clean = make_iteration(members)
    mixed = with_losses(clean, lost)
    if not any(trajectory.resolved for trajectory in clean):
        with pytest.raises(UsageError):
            rft.keep_resolved(mixed)
        return
    kept = rft.keep_resolved(mixed)
    assert kept == rft.keep_resolved(clean)
    told, expected = (rft.describe(t, kept) for t in (mixed, clean))
    assert told | {"rollouts/collected": 0} == expected | {"rollouts/collected": 0}


def test_the_old_name_of_a_failed_audit_is_read_with_a_warning():
    with pytest.warns(FutureWarning, match="`convicted` is deprecated"):
        audit = Audit.model_validate_json('{"verdict": "convicted"}')
    assert audit.has_failed and audit.verdict == "failed"
