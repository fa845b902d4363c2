import pytest

from turnsmith.errors import UsageError
from turnsmith.tasks.selection import read_ids, select_subset
from turnsmith.types import Task


def make_task(name):
    return Task(
        instance_id=name, repo="r", base_commit="c", problem_statement="p", patch="", layers=["l"],
        FAIL_TO_PASS=["a.py::t"], PASS_TO_PASS=[],
    )  # fmt: skip


def test_the_fifty_of_the_paper_are_built_in():
    ids = read_ids("verified-50")
    assert len(ids) == 50
    assert (ids[0], ids[-1]) == ("sympy__sympy-22080", "pylint-dev__pylint-4661")
    assert sum(name.startswith("django__django-") for name in ids) == 24


def test_a_subset_of_ones_own_is_a_file_of_ids(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("\ufeff# mine\nc\n\na\nc\n", encoding="utf-8")
    assert [task.instance_id for task in select_subset(map(make_task, "abc"), str(file))] == ["c", "a"]


def test_ids_that_are_not_there_are_named():
    with pytest.raises(UsageError, match=r"49 of the 50 task ids of verified-50 .*sympy__sympy-22080"):
        select_subset([make_task("django__django-15315")], "verified-50")


def test_a_subset_that_nobody_knows_names_what_there_is(tmp_path):
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(UsageError, match=r"subset verified-51 .*give verified-50"):
        read_ids("verified-51")
    with pytest.raises(UsageError, match=r"empty\.txt .*no task ids"):
        read_ids(str(tmp_path / "empty.txt"))
