import json
import re
from contextlib import nullcontext
from dataclasses import replace

from pytest import mark, raises

from support.episodes.silence import Silence
from turnsmith.config import RunConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.grading.logparse import PARSERS
from turnsmith.recipes.task_sets import narrow_evaluation, prepare_task_set, warn_of_older
from turnsmith.runs.folder import RunFolder
from turnsmith.synthesis.practice.making import PracticeSpec, make_practice_tasks
from turnsmith.tasks.dataset import save_tasks
from turnsmith.tasks.selection import digest_content
from turnsmith.tasks.task_set import TaskSet, check_disjoint, read_task_set
from turnsmith.types import Task

PATCH = """diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1,3 +1,3 @@
 def total(prices):
-    return 0
+    return sum(prices)
"""


def task_set(name, tmp_path, *names):
    tasks = [
        Task(
            instance_id=n,
            repo="r",
            base_commit="c",
            problem_statement="p",
            patch="",
            layers=["base"],
            FAIL_TO_PASS=["test_a.py::t"],
            PASS_TO_PASS=[],
        )
        for n in names
    ]
    return TaskSet(name, tasks, tmp_path / "tasks.jsonl")


def test_training_and_evaluation_tasks_are_disjoint(tmp_path):
    train = task_set("train", tmp_path, "a", "b")
    check_disjoint(train, [task_set("x", tmp_path, "c")])
    with raises(UsageError, match=r"eval_tasks.y .*train_tasks, e.g. b .* as b \(the same id"):
        check_disjoint(train, [task_set("x", tmp_path, "c"), task_set("y", tmp_path, "d", "b")])


class Listener(Silence):
    """Keeps what is said."""

    def __init__(self):
        self.said = []

    def log(self, text):
        self.said.append(text)


def with_dates(tasks, repo, *dates):
    dated = zip(tasks.tasks, dates, strict=True)
    return replace(
        tasks, tasks=[task.model_copy(update={"repo": repo, "meta": {"date": date}}) for task, date in dated]
    )


def test_evaluation_tasks_older_than_a_training_task_cause_a_warning(tmp_path):
    train = with_dates(task_set("train", tmp_path, "a", "b"), "octo/shop", "2024-03-01T00:00:00+00:00", None)
    older, newer = "2024-03-01T01:00:00+02:00", "2024-02-29T23:30:00-01:00"
    mine = with_dates(task_set("x", tmp_path, "c", "d", "e"), "fork/Shop", older, newer, None)
    other = with_dates(task_set("y", tmp_path, "f"), "octo/cart", older)
    listener = Listener()
    warn_of_older(train, [other], listener)
    assert listener.said == []
    warn_of_older(train, [mine, other], listener)
    [said] = listener.said
    assert said.startswith("1 of 4 evaluation tasks") and "older" in said
    assert "--by date" in said


def with_content(tasks, repo, patch):
    return replace(tasks, tasks=[task.model_copy(update={"repo": repo, "patch": patch}) for task in tasks.tasks])


@mark.parametrize(
    ("repo", "patch", "is_same"),
    [
        ("octo/shop", PATCH, True),
        (
            "fork/Shop",
            PATCH.replace("@@ -1,3 +1,3 @@", "@@ -7,3 +7,3 @@").replace("def total(prices)", "def total(items)"),
            True,
        ),
        ("octo/shop", "index 1234..5678\n" + PATCH.replace("sum(prices)", "sum(prices)  "), True),
        ("octo/cart", PATCH, False),
        ("octo/shop", PATCH.replace("sum(prices)", "max(prices)"), False),
        ("octo/shop", PATCH.replace("shop.py", "cart.py"), False),
    ],
)
def test_the_same_fix_under_another_id_is_found(tmp_path, repo, patch, is_same):
    train = with_content(task_set("train", tmp_path, "a"), "octo/shop", PATCH)
    other = with_content(task_set("x", tmp_path, "b"), repo, patch)
    with raises(UsageError, match=r"e.g. b .* as a \(the same repository") if is_same else nullcontext():
        check_disjoint(train, [other])


@mark.slow
async def test_splits_of_practice_tasks_share_no_content(tmp_path, provider):
    sets = [
        TaskSet(split, await make_practice_tasks(PracticeSpec(split, 12, 0.0, 7), tmp_path / split, provider), tmp_path)
        for split in ("train", "heldout")
    ]
    assert all(digest_content(task) for each in sets for task in each.tasks)
    check_disjoint(sets[0], sets[1:])


def test_a_held_out_task_is_refused_for_training(tmp_path):
    train = task_set("train", tmp_path, "a", "b")
    train.tasks[1].meta["split"] = "heldout"
    with raises(UsageError, match=r"train_tasks .*1 held-out task.* b"):
        check_disjoint(train, [])


def save_with_odd(tmp_path):
    """Three tasks: `a` has a parser that nobody has, `b` is sound, `c` expects what is no id of pytest's."""
    (tmp_path / "base").mkdir()
    odd, sound, strange = task_set("train", tmp_path, "a", "b", "c").tasks
    changes = {"PASS_TO_PASS": ["[100%]"]}
    save_tasks(tmp_path, [odd.model_copy(update={"log_parser": "ward"}), sound, strange.model_copy(update=changes)])


def test_tasks_that_cannot_be_graded_are_set_aside_with_reasons(tmp_path):
    save_with_odd(tmp_path)
    found = read_task_set("train", tmp_path, PARSERS)
    assert [task.instance_id for task in found.tasks] == ["b"]
    assert re.search(r"log parser 'ward': .*pytest, lines", found.excluded["a"].detail)
    assert "'[100%]'" in found.excluded["c"].detail
    assert found.remarks() == [
        "train: 1 of 3 tasks cannot be graded here: no log parser ward, e.g. a",
        "train: 1 of 3 tasks cannot be graded here: an expected test has no pytest id, e.g. c",
    ]


def test_lone_surrogates_are_replaced(tmp_path):
    (tmp_path / "base").mkdir()
    rows = [task.model_dump() for task in task_set("train", tmp_path, "a", "b").tasks]
    rows[1] |= {"problem_statement": "x \ud800 \ud83d\ude00", "meta": {"note": ["\udfff"]}}
    (tmp_path / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_task_set("train", tmp_path, PARSERS)
    assert found.tasks[1].problem_statement == "x \N{REPLACEMENT CHARACTER} \N{GRINNING FACE}"
    assert all(task.model_dump_json() for task in found.tasks)


async def test_a_run_reports_the_tasks_it_leaves_out(tmp_path, provider):
    save_with_odd(tmp_path)
    listener, wanted = Listener(), TaskSetConfig(path=str(tmp_path))
    prepared = await prepare_task_set("train", wanted, RunConfig(), RunFolder(tmp_path / "run"), provider, listener)
    assert listener.said == prepared.remarks() != []


@mark.parametrize(
    ("wanted", "fault"),
    [
        ({"tasks": ["b", "c"]}, r"tasks.jsonl: task c .*'\[100%\]'"),
        ({"limit": 1}, r"tasks.jsonl: task a cannot be graded: it asks for the log parser 'ward'"),
    ],
)
def test_a_requested_or_only_task_must_be_gradable(tmp_path, wanted, fault):
    save_with_odd(tmp_path)
    with raises(UsageError, match=fault):
        read_task_set("train", tmp_path, PARSERS, TaskSetConfig(path=str(tmp_path), **wanted))


def test_ids_of_other_suites_need_not_be_those_of_pytest(tmp_path):
    (tmp_path / "base").mkdir()
    [task] = task_set("train", tmp_path, "a").tasks
    django = task.model_copy(update={"FAIL_TO_PASS": ["test_x (queries.tests.T)"], "log_parser": "unittest"})
    save_tasks(tmp_path, [django])
    assert len(read_task_set("train", tmp_path, PARSERS).tasks) == 1


def test_a_task_whose_image_holds_the_tree_needs_no_layers(tmp_path):
    [task] = task_set("train", tmp_path, "a").tasks
    save_tasks(tmp_path, [task.model_copy(update={"layers": [], "image": "octo/shop:1"})])
    assert read_task_set("train", tmp_path, PARSERS).list_trees()[0].layers == ()


async def test_a_subset_is_read_by_its_ids(tmp_path, provider):
    (tmp_path / "base").mkdir()
    save_tasks(tmp_path, task_set("x", tmp_path, "a", "b", "c").tasks)
    (tmp_path / "two.txt").write_text("c\na\n")
    chosen = TaskSetConfig(path=str(tmp_path), subset=str(tmp_path / "two.txt"))
    assert [task.instance_id for task in read_task_set("x", tmp_path, PARSERS, chosen).tasks] == ["c", "a"]
    prepared = await prepare_task_set("x", chosen, RunConfig(), RunFolder(tmp_path / "run"), provider, Silence())
    assert [task.instance_id for task in prepared.tasks] == ["c", "a"]
    with raises(ValueError, match=r"subset .*path"):
        TaskSetConfig(practice_tasks=3, subset="verified-50")


@mark.parametrize(
    ("keys", "ids"),
    [
        ({"limit": 2}, ["a", "b"]),
        ({"tasks": ["c", "b"]}, ["b", "c"]),
        ({"tasks": ["c", "b"], "limit": 1}, ["b"]),
        ({"subset": "two.txt", "limit": 1}, ["c"]),
    ],
)
def test_a_task_set_can_be_limited_by_ids_or_number(tmp_path, monkeypatch, keys, ids):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "base").mkdir()
    save_tasks(tmp_path, task_set("x", tmp_path, "a", "b", "c").tasks)
    (tmp_path / "two.txt").write_text("c\na\n")
    chosen = read_task_set("x", tmp_path, PARSERS, TaskSetConfig(path=str(tmp_path), **keys))
    assert [task.instance_id for task in chosen.tasks] == ids


@mark.parametrize(("names", "limit", "tasks"), [(["c"], None, {"y": ["c"]}), ([], 1, {"x": ["a"], "y": ["c"]})])
def test_an_evaluation_of_some_tasks_leaves_out_other_sets(tmp_path, names, limit, tasks):
    config = make_evaluation(tmp_path)
    narrowed = RunConfig.model_validate(narrow_evaluation(config, names, limit).model_dump())
    found = {
        name: [task.instance_id for task in read_task_set(name, tmp_path / name, PARSERS, source).tasks]
        for name, source in narrowed.eval_tasks.items()
        if source.path
    }
    assert found == tasks
    assert ("made" in narrowed.eval_tasks) is not bool(names)


def test_a_task_in_no_evaluation_set_is_named(tmp_path):
    with raises(UsageError, match=r"task 'nobody' .* x \(.*/x\), y \(.*/y\)"):
        narrow_evaluation(make_evaluation(tmp_path), ["a", "nobody"], None)


def test_an_evaluation_of_made_tasks_has_no_ids_to_select(tmp_path):
    config = make_evaluation(tmp_path)
    made = config.model_copy(update={"eval_tasks": {"made": config.eval_tasks["made"]}})
    with raises(UsageError, match="--limit N"):
        narrow_evaluation(made, ["a"], None)


def make_evaluation(tmp_path):
    """Return a configuration with two task files and a set that the run makes."""
    for name, ids in (("x", "ab"), ("y", "cd")):
        (tmp_path / name / "base").mkdir(parents=True)
        save_tasks(tmp_path / name, task_set(name, tmp_path, *ids).tasks)
    paths = {name: {"path": str(tmp_path / name)} for name in "xy"}
    made = {"practice_tasks": 2, "split": "heldout"}
    return RunConfig.model_validate({"eval_tasks": paths | {"made": made}})
