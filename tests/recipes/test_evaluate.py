from pytest import approx, mark

from support.episodes.attempts import attempt
from turnsmith.config import EvalConfig
from turnsmith.recipes.evaluate import evaluate, rates_of_runs, summarise
from turnsmith.types import Outcome, SamplingParams, StopReason, Turn
from turnsmith.ui.tables import list_remarks

from .conftest import CONFIG


def attempts(**outcomes):
    return [attempt(task, index, outcome) for task, row in outcomes.items() for index, outcome in enumerate(row)]


YES, NO, LOST = Outcome.RESOLVED, Outcome.UNRESOLVED, Outcome.SANDBOX_FAILED


def test_pass_at_1_is_the_mean_over_runs_of_the_share_of_tasks():
    result = summarise("base", "set", attempts(a=[YES, YES], b=[NO, YES], c=[NO, NO]), EvalConfig(num_runs=2, k=2))
    assert result.pass_at_1 == approx(0.5)
    assert result.sem == approx(1 / 6)
    assert result.pass_at_k == approx(2 / 3)
    assert result.per_task == {"a": 1.0, "b": 0.5, "c": 0.0}


def test_lost_rollouts_are_reported_and_not_counted():
    result = summarise("base", "set", attempts(a=[YES, LOST], b=[NO, YES]), EvalConfig(num_runs=2, k=1))
    assert result.num_lost == 1
    assert rates_of_runs([t for t in attempts(a=[YES, LOST], b=[NO, YES]) if t.outcome is not LOST]) == [0.5, 1.0]
    assert result.per_task == {"a": 1.0, "b": 0.5}


def test_a_single_run_has_no_standard_error():
    assert summarise("base", "set", attempts(a=[YES]), EvalConfig(num_runs=1, k=1)).sem is None


def test_standard_error_is_none_if_only_one_run_has_attempts():
    result = summarise("base", "set", attempts(a=[YES, LOST], b=[NO, LOST]), EvalConfig(num_runs=2, k=1))
    assert result.sem is None and (result.pass_at_1, result.num_lost) == (0.5, 2)


def test_result_lists_every_isolation_tier():
    kinds = zip(("b", "a", "b", "c"), (YES, NO, YES, LOST), strict=True)
    tried = [attempt("t", i, out).model_copy(update={"isolation": kind}) for i, (kind, out) in enumerate(kinds)]
    assert summarise("base", "set", tried, EvalConfig(num_runs=4, k=1)).isolation == "a, b"


def test_turns_and_submits_are_means_over_counted_attempts():
    endings = [(3, StopReason.SUBMITTED, NO), (5, StopReason.SUBMITTED, YES), (7, StopReason.MAX_TURNS, NO),
               (8, StopReason.SUBMITTED, NO), (40, StopReason.SANDBOX_FAILED, LOST)]  # fmt: skip
    trajectories = [
        attempt("a", index, outcome).model_copy(
            update={"turns": [Turn(start=1, end=1, text="")] * num_turns, "stop_reason": stop_reason}
        )
        for index, (num_turns, stop_reason, outcome) in enumerate(endings)
    ]
    result = summarise("base", "set", trajectories, EvalConfig(num_runs=5, k=1))
    assert result.mean_turns == approx(23 / 4)
    assert result.submit_rate == approx(3 / 4)
    assert result.outcomes == {"unresolved": 3, "resolved": 1, "sandbox_failed": 1}


def test_a_task_with_a_lost_attempt_is_missing_from_pass_at_k_and_in_its_bounds():
    tried = attempts(a=[YES, LOST], b=[NO, NO], c=[NO, LOST], d=[LOST, LOST])
    result = summarise("base", "set", tried, EvalConfig(num_runs=2, k=2))
    assert (result.num_attempts, result.num_tasks, result.num_tasks_at_k, result.num_tasks_in_set) == (4, 3, 1, 4)
    assert result.pass_at_k == 0.0
    assert result.pass_at_k_bounds == (0.25, 0.75)
    assert result.pass_at_1_bounds == (0.125, 0.625)
    [remark] = list_remarks(result.model_dump())
    assert "4 rollouts" in remark and "pass@2 on 1 (25.0% to 75.0%" in remark


def test_without_lost_rollouts_the_bounds_equal_the_figures():
    result = summarise("base", "set", attempts(a=[YES, NO], b=[NO, NO]), EvalConfig(num_runs=2, k=2))
    assert result.pass_at_k_bounds == (result.pass_at_k, result.pass_at_k) == (0.5, 0.5)
    assert result.pass_at_1_bounds == (result.pass_at_1, result.pass_at_1)
    assert list(list_remarks(result.model_dump())) == []


def test_result_records_sampling_parameters():
    result = summarise("base", "set", attempts(a=[YES]), EvalConfig(num_runs=1, k=1, sampling={"temperature": 0.7}))
    assert result.sampling == {"temperature": 0.7}
    assert list(list_remarks(result.model_dump())) == [
        "base on set: sampled with temperature 0.7, not from the policy itself"
    ]


@mark.parametrize("sampling", [{}, {"temperature": 0.0}])
async def test_evaluation_passes_its_sampling_parameters_to_the_engine(make_run, sampling):
    config = CONFIG.model_copy(update={"eval": EvalConfig(num_runs=1, k=1, sampling=sampling)})
    run, asked = make_run(config), []
    generate = run.policy.engine.generate

    async def listen(request):
        asked.append((request.params, request.trains))
        return await generate(request)

    run.policy.engine.generate = listen
    await evaluate("base", run.train_tasks, run)
    assert set(asked) == {(SamplingParams(**sampling), not sampling)}
