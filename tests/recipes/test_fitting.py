"""Tasks whose first prompt exceeds the context limit are excluded."""

from dataclasses import replace

from pytest import fixture, mark, raises

from support.episodes.silence import Silence
from turnsmith.config import TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.recipes.fitting import keep_fitting

from .conftest import CONFIG, MAX_CONTEXT


class Listener(Silence):
    """Progress that records its messages."""

    def __init__(self):
        self.lines = []

    def log(self, text):
        self.lines.append(text)


@fixture
def open_run(make_run):
    """Return a run whose task `b` has a very long issue, in training and in evaluation."""

    def make(config=CONFIG):
        run = make_run(config)
        long = [
            task.model_copy(update={"problem_statement": "wrong " * MAX_CONTEXT}) if task.instance_id == "b" else task
            for task in run.train_tasks.tasks
        ]
        train = replace(run.train_tasks, tasks=long)
        return replace(run, train_tasks=train, eval_tasks=[replace(train, name="held")], progress=Listener())

    return make


def test_a_task_longer_than_the_context_is_set_aside_with_its_reason(open_run):
    run = open_run()
    fitting = keep_fitting(run)
    for task_set in (fitting.train_tasks, *fitting.eval_tasks):
        assert [task.instance_id for task in task_set.tasks] == ["a", "c"]
        assert task_set.excluded["b"].detail.startswith("the first prompt has ")
    assert run.progress.lines == [
        f"held: 1 of 3 tasks cannot be used: the first prompt does not fit into agent.max_context ({MAX_CONTEXT}), e.g. b",
        f"train: 1 of 3 tasks cannot be used: the first prompt does not fit into rft.max_context ({MAX_CONTEXT}), e.g. b",
    ]


@mark.parametrize(("names", "num_kept"), [(["b"], None), (["a"], 2)])
def test_a_requested_task_that_is_too_long_is_an_error(open_run, names, num_kept):
    held = TaskSetConfig(path="held", tasks=names)
    run = open_run(CONFIG.model_copy(update={"eval_tasks": {"held": held}}))
    if num_kept:
        assert len(keep_fitting(run).eval_tasks[0].tasks) == num_kept
    else:
        with raises(UsageError, match=r"task b: the first prompt has \d+ tokens, .* raise agent.max_context"):
            keep_fitting(run)


def test_a_context_too_short_for_every_task_is_an_error(open_run):
    stage = CONFIG.stages[0].model_copy(update={"max_context": 20})
    run = open_run(CONFIG.model_copy(update={"stages": [stage]}))
    with raises(UsageError, match=r"task a: the first prompt has .* raise stages.0.max_context"):
        keep_fitting(run)
