"""Journals of trajectories: facts and arrays in two files that only grow, torn anywhere, read as a stream."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_trajectory
from turnsmith.errors import UsageError
from turnsmith.runs.journal import append_trajectory, arrays_file, read_trajectories
from turnsmith.types import Outcome, Trajectory


@pytest.fixture
def journal(tmp_path):
    return tmp_path / "new" / "trajectories.jsonl"


def make_long(index: int, length: int) -> Trajectory:
    rng = np.random.default_rng(index)
    return make_trajectory(f"rft/a/{index}").grow(
        token_ids=rng.integers(0, 99, length).astype(np.int32),
        sampled=rng.random(length) < 0.3,
        logprobs=-rng.random(length).astype(np.float32),
    )


def fill(journal, lengths):
    made = [make_long(index, length) for index, length in enumerate(lengths)]
    for trajectory in made:
        append_trajectory(journal, trajectory)
    return made


@given(st.lists(st.integers(0, 50), max_size=5))
def test_what_is_written_reads_back_the_same_in_order(tmp_path_factory, lengths):
    journal = tmp_path_factory.mktemp("run") / "trajectories.jsonl"
    made = fill(journal, lengths)
    found = list(read_trajectories(journal))
    assert found == made
    for trajectory in found:
        assert [column.dtype for column in trajectory.arrays().values()] == [np.int32, np.bool_, np.float32]


def test_trajectories_differ_where_one_token_or_one_fact_does():
    one = make_long(0, 9)
    assert one == make_long(0, 9) and one != make_long(1, 9)
    assert one != one.grow(outcome=Outcome.TAMPERED) and one != one.grow(logprobs=one.logprobs * 2)


def test_a_journal_that_is_not_there_holds_nothing(tmp_path):
    assert list(read_trajectories(tmp_path / "none.jsonl")) == []


def test_either_file_torn_anywhere_keeps_what_was_whole_and_goes_on(journal):
    first, second = fill(journal, [5, 7])
    lines, arrays = journal.read_bytes(), arrays_file(journal).read_bytes()
    whole = lines.index(b"\n") + 1
    for length in range(0, len(lines) - whole, 17):
        journal.write_bytes(lines[: whole + length])
        append_trajectory(journal, second)
        assert list(read_trajectories(journal)) == [first, second]
    [_, facts] = [json.loads(line) for line in lines.splitlines()]
    for length in range(facts["arrays"]["offset"], len(arrays), 17):  # torn before its line was written
        journal.write_bytes(lines[:whole])
        arrays_file(journal).write_bytes(arrays[:length])
        append_trajectory(journal, second)
        assert list(read_trajectories(journal)) == [first, second]


def test_only_lines_that_contain_a_text_are_read(journal):
    fill(journal, [3, 4, 5])
    assert [t.index for t in read_trajectories(journal, containing='"rft/a/1"')] == [1]


def test_arrays_are_mapped_and_cannot_be_written(journal):
    fill(journal, [300])
    [trajectory] = read_trajectories(journal)
    base = trajectory.token_ids
    while base.base is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        trajectory.token_ids[0] = 1


def test_arrays_that_are_torn_or_missing_are_named(journal):
    fill(journal, [300])
    arrays = arrays_file(journal)
    arrays.write_bytes(arrays.read_bytes()[:-100])
    with pytest.raises(UsageError, match=r"jsonl:1 .*rft/a/0 .*arrays file .*\d+ of \d+ bytes"):
        list(read_trajectories(journal))
    arrays.unlink()
    with pytest.raises(UsageError, match=r"jsonl:1 .*rft/a/0 .* 0 of"):
        list(read_trajectories(journal))


def test_arrays_of_another_trajectory_are_named(journal):
    fill(journal, [30, 30])
    first, second = journal.read_text().splitlines()
    journal.write_text(json.dumps(json.loads(first) | {"arrays": json.loads(second)["arrays"]}) + "\n")
    with pytest.raises(UsageError, match=r"rft/a/1, not .*rft/a/0"):
        list(read_trajectories(journal))


def test_arrays_that_are_garbage_are_one_sentence(journal):
    fill(journal, [30])
    arrays = arrays_file(journal)
    arrays.write_bytes(b"\xff" * arrays.stat().st_size)
    with pytest.raises(UsageError, match="jsonl:1 "):
        list(read_trajectories(journal))


def test_a_journal_of_the_old_format_says_which_version_reads_it(journal):
    journal.parent.mkdir()
    journal.write_text('{"trajectory_id": "a/b/0", "token_ids": [1, 2]}\n')
    with pytest.raises(UsageError, match=r"Turnsmith 0\.1.*turnsmith 0\.1"):
        list(read_trajectories(journal))


def test_a_line_that_is_no_trajectory_is_named(journal):
    fill(journal, [3])
    with journal.open("a") as file:
        file.write('{"trajectory_id": "x"}\n')
    with pytest.raises(UsageError, match=r"jsonl:2 .*remove"):
        list(read_trajectories(journal))
    assert next(read_trajectories(journal)).index == 0, "readers stream"
