"""Disguised duplicates are found; unrelated tasks are not reported."""

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.data_sets.planted_duplicates import disguise, make_tasks
from support.data_sets.set_rows import ISSUE, PATCH, make_mined_row, make_rebench_row
from turnsmith.curation.contamination import THRESHOLDS, find_matches, index_rows, parse_thresholds
from turnsmith.curation.repositories import name_repository, normalise_repository
from turnsmith.curation.rows import parse_row
from turnsmith.curation.similarity import measure_likeness, shingle_issue, shingle_patch
from turnsmith.curation.splits import choose_part, cut_by_date, parse_parts
from turnsmith.errors import UsageError
from turnsmith.io.files import Line

SEEDS = (7001, 7002)
"""Thresholds were tuned on seeds 0 to 9, by `bench/curation.py`."""
ALL = frozenset({"patch", "issue"})


def to_row(columns):
    return parse_row(Line("here", json.dumps(columns).encode()))


def find(train, evaluated, *ways):
    index = index_rows(map(to_row, evaluated), ways)
    return {row["instance_id"]: find_matches(to_row(row), index) for row in train}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("ways", [ALL, {"patch"}, {"issue"}], ids=lambda ways: "-".join(sorted(ways)))
def test_every_planted_duplicate_is_found(seed, ways):
    """Renamed, reordered, reworded: by the patch alone, by the issue alone, and where both are in disguise."""
    evaluated = make_tasks(seed, 100, "eval")
    others = make_tasks(seed + 1000, 100, "other")
    planted = [disguise(row, seed, f"train-{number}") for number, row in enumerate(evaluated)]
    if "issue" not in ways:  # another issue altogether, the patch alone gives it away
        planted = [
            row | {"problem_statement": other["problem_statement"]} for row, other in zip(planted, others, strict=True)
        ]
    if "patch" not in ways:
        planted = [row | {"patch": other["patch"]} for row, other in zip(planted, others, strict=True)]
    found = find(planted, evaluated, *ways)
    assert [name for name, matches in found.items() if not matches] == []
    twins = {(f"train-{number}", row["instance_id"]) for number, row in enumerate(evaluated)}
    told = {(match.train_id, match.eval_id) for matches in found.values() for match in matches}
    assert len(twins & told) >= 95  # of a few functions the library tells the same twice


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_of_ten_thousand_pairs_that_are_none_one_in_a_hundred_at_most_is_taken_for_one(seed):
    """All pairs of different functions, many of them in one file, each compared, whether the index would find it or not."""
    tasks = make_tasks(seed, 200, "task")
    patches = [shingle_patch(task["patch"]) for task in tasks]
    issues = [shingle_issue(task["problem_statement"]) for task in tasks]
    assert all(patches) and all(issues)
    alarms = [
        (train, other)
        for train, other in product(range(100), range(100, 200))
        if measure_likeness(patches[train], patches[other]) >= THRESHOLDS["patch"]
        or measure_likeness(issues[train], issues[other]) >= THRESHOLDS["issue"]
    ]
    assert len(alarms) <= 100


def test_a_disguise_leaves_nothing_of_the_text():
    """Or the two tests above would prove little: no chosen name stays, the order is another, and some words are."""
    row = make_tasks(7, 1, "t")[0]
    twin = disguise(row, 7, "twin")
    assert not set(twin["patch"].split("\n")) & {line for line in row["patch"].split("\n") if len(line.strip()) > 20}
    assert twin["problem_statement"] != row["problem_statement"] and twin["repo"] != row["repo"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Owner/My_Name", "my-name"),
        ("fork/my-name", "my-name"),
        ("https://github.com/Owner/My.Name.git", "my-name"),
        ("https://github.com/owner/my-name/", "my-name"),
        ("swesmith/owner__my_name.0123abcd", "my-name"),
        ("owner__my-name", "my-name"),
        ("my_name-1.0.0", "my-name"),
        ("my-name-2.0b1", "my-name"),
        ("python-dateutil", "python-dateutil"),
        ("", ""),
    ],
)
def test_a_repository_has_one_name(name, expected):
    assert normalise_repository(name) == expected


@given(st.text())
def test_any_name_is_normalised_once_and_for_all_forks(name):
    assert normalise_repository(f"a/x{name}") == normalise_repository(f"b/x{name}")


def test_forks_are_found_by_name_or_by_commit_and_the_same_id_by_itself():
    evaluated = [make_rebench_row("e", repo="Owner/Name", base_commit="a" * 40, patch="", problem_statement="")]
    train = [
        make_rebench_row("fork", repo="me/name", base_commit="b" * 40),
        make_rebench_row("renamed", repo="me/other", base_commit="a" * 40),
        make_rebench_row("e", repo="me/third", base_commit="c" * 40),
        make_rebench_row("clean", repo="me/fourth", base_commit="0" * 40),
    ]
    found = find(train, evaluated, "id", "repo")
    ways = {name: [(match.by, match.eval_id) for match in matches] for name, matches in found.items()}
    assert ways == {"fork": [("repo", "e")], "renamed": [("repo", "e")], "e": [("id", "e")], "clean": []}
    assert name_repository(to_row({"instance_id": "x"})) == ""


def test_mined_tasks_are_found_by_their_history_whatever_their_base_commit():
    """The base commit of a mined task is made for its layers, and another wherever it was mined."""
    evaluated = [
        make_mined_row("e", repo="octo/shop", base_commit="a" * 40, commit="c" * 40, parent="d" * 40),
        make_rebench_row("public", repo="octo/cart", base_commit="1" * 40),
    ]
    train = [
        make_mined_row("same", repo="me/x", base_commit="b" * 40, commit="c" * 40, parent="d" * 40),
        make_mined_row("next", repo="me/y", base_commit="b" * 40, commit="e" * 40, parent="c" * 40),
        make_mined_row("public-too", repo="me/z", base_commit="b" * 40, commit="2" * 40, parent="1" * 40),
        make_mined_row("clean", repo="me/w", base_commit="b" * 40, commit="3" * 40, parent="0" * 40),
    ]
    found = find(train, evaluated, "id", "repo")
    assert {name: [(match.by, match.eval_id) for match in matches] for name, matches in found.items()} == {
        "same": [("id", "e"), ("repo", "e")],
        "next": [("repo", "e")],
        "public-too": [("repo", "public")],
        "clean": [],
    }


def test_sets_that_are_evaluated_on_may_share_tasks():
    """As SWE-bench Lite and Verified do."""
    lite, verified = [make_rebench_row("a"), make_rebench_row("b")], [make_rebench_row("b"), make_rebench_row("c")]
    found = find([make_rebench_row("train")], [*lite, *verified], "id", "repo", "patch", "issue")
    assert [match.by for match in found["train"]] == ["repo", "patch", "issue"]


def test_the_oldest_tasks_go_into_the_first_part_wherever_their_clocks_stood():
    rows = [
        make_mined_row("third", date="2024-01-01T23:00:00-05:00"),
        make_mined_row("second", date="2024-01-02T00:30:00Z"),
        make_rebench_row("first", created_at="2024-01-01 23:59:59"),
        make_mined_row("twin-b", date="2024-02-01T00:00:00+00:00"),
        make_mined_row("twin-a", date="2024-02-01T01:00:00+01:00"),
    ]
    parts = parse_parts("train=0.4,dev=0.4,eval=0.2")
    for order in (rows, rows[::-1]):
        placed = {name: part.name for name, part in cut_by_date(map(to_row, order), parts).items()}
        assert placed == {"first": "train", "second": "train", "third": "dev", "twin-a": "dev", "twin-b": "eval"}
    with pytest.raises(UsageError, match=r"'x' has no ISO date"):
        cut_by_date([to_row(make_rebench_row("x", created_at=1700000000000))], parts)


def test_what_says_too_little_is_counted_and_not_compared():
    tiny = make_rebench_row("a", patch="@@ -1 +1 @@\n-a\n+b\n", problem_statement="It fails.")
    index = index_rows([to_row(tiny)], ["patch", "issue"])
    assert find_matches(to_row(tiny | {"instance_id": "b"}), index) == []
    assert [held.num_too_short for held in index] == [2, 2]


def test_a_patch_is_like_itself_and_unlike_another():
    mine, other = (
        shingle_patch(PATCH),
        shingle_patch(PATCH.replace("width * height", "sum([width] * int(height), 0.5)")),
    )
    assert measure_likeness(mine, mine) == 1.0 and 0.4 < measure_likeness(mine, other) < 1.0
    assert measure_likeness(mine, frozenset()) == measure_likeness(frozenset(), frozenset()) == 0.0


@given(st.text(max_size=300))
def test_whatever_is_called_a_patch_or_an_issue_is_cut(text):
    assert shingle_issue(text) == shingle_issue(text + "\n")
    assert shingle_patch("@@ -1,3 +1,3 @@\n" + text) is not None


@pytest.mark.parametrize("given", ["patch", "patch=", "patch=0", "patch=1.1", "repo=0.5", "patch=nan"])
def test_a_likeness_that_cannot_be(given):
    with pytest.raises(UsageError, match="--likeness"):
        parse_thresholds([given])


def test_a_row_falls_into_the_same_part_by_its_id_every_time():
    parts, ids = parse_parts("train=0.8, dev=0.1,eval=0.1"), [f"{number}" for number in range(2_000)]
    placed = [choose_part(name, parts, 0).name for name in ids]
    assert abs(placed.count("train") / 2_000 - 0.8) < 0.03
    assert placed != [choose_part(name, parts, 1).name for name in ids]


@pytest.mark.parametrize(
    "text", ["", "a", "a=1", "a=0.5,b=0.6", "a=0.5,a=0.5", "a=x,b=1", "../a=0.5,b=0.5", "a=-1,b=2"]
)
def test_parts_that_make_no_whole(text):
    with pytest.raises(UsageError, match="--into"):
        parse_parts(text)


def test_issues_are_compared_by_their_words():
    other = (
        "We call area(2, 3) and get 5. It should have been 6! Its source adds lengths: a perimeter, though it looks plausible. "
        "The documentation of the rectangle multiplies its height by its width, as the release before did, which worked."
    )
    assert measure_likeness(shingle_issue(ISSUE), shingle_issue(other)) >= 0.33
