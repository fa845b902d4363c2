"""Summaries of journals equal the facts of the whole trajectories, in live, torn and damaged journals."""

import json
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from conftest import make_trajectory
from turnsmith.runs.journal import append_trajectory, arrays_file, read_entry, read_trajectories
from turnsmith.runs.summaries import AFTER_TURNS, BEFORE_TURNS, JournalIndex, read_appended
from turnsmith.types import Grade, Outcome, Trajectory, Turn

TRAPS = [BEFORE_TURNS.decode(), AFTER_TURNS.decode(), '{"start":', '"],"stop_reason":"', "\n", "\u2028", "\0", "\\"]
TEXTS = st.lists(st.one_of(st.sampled_from(TRAPS), st.text(max_size=4)), max_size=6).map("".join)


@st.composite
def trajectories(draw) -> Trajectory:
    length = draw(st.integers(0, 40))
    turns = [
        Turn(start=0, end=1, text=draw(TEXTS), observation=draw(TEXTS), command=draw(TEXTS))
        for _ in range(draw(st.integers(0, 3)))
    ]
    statuses = draw(st.dictionaries(st.one_of(TEXTS, st.just("stop_reason")), st.just("passed"), max_size=3))
    grade = Grade(outcome=Outcome.RESOLVED, statuses=statuses, flags=draw(st.lists(TEXTS, max_size=2)))
    return make_trajectory("rft/a/0").grow(
        trajectory_id=draw(TEXTS),
        turns=turns,
        grade=draw(st.sampled_from([None, grade])),
        patch=draw(TEXTS),
        detail=draw(TEXTS),
        form=draw(st.sampled_from(["tokens", "messages"])),
        token_ids=np.zeros(length, np.int32),
        sampled=np.zeros(length, np.bool_),
        logprobs=np.zeros(length, np.float32),
    )


def refresh(journal: Path) -> JournalIndex:
    index = JournalIndex(journal)
    index.refresh()
    return index


@given(st.lists(trajectories(), max_size=4))
def test_a_summary_has_the_facts_of_its_trajectory(tmp_path_factory, made):
    journal = tmp_path_factory.mktemp("run") / "trajectories.jsonl"
    for trajectory in made:
        append_trajectory(journal, trajectory)
    index = refresh(journal)
    assert not index.faults and len(index.summaries) == len(made)
    for summary, trajectory in zip(index.summaries, made, strict=True):
        assert summary.trajectory_id == trajectory.trajectory_id
        assert (summary.outcome, summary.stop_reason) == (trajectory.outcome, trajectory.stop_reason)
        assert summary.num_turns == trajectory.num_turns
        assert summary.num_tokens == (len(trajectory.token_ids) if trajectory.form == "tokens" else None)
        assert summary.has_patch == bool(trajectory.patch)
        assert summary.flags == (tuple(trajectory.grade.flags) if trajectory.grade else ())
        assert read_entry(journal, summary.start, summary.size).trajectory == trajectory


@given(st.lists(st.binary(max_size=9), max_size=5), st.integers(0, 20))
def test_only_complete_lines_from_the_start_on_are_read(tmp_path_factory, parts, start):
    file = tmp_path_factory.mktemp("run") / "lines"
    file.write_bytes(b"\n".join(parts))
    text = file.read_bytes()[start:]
    with file.open("rb") as lines:
        assert b"".join(read_appended(lines, start)) == text[: text.rfind(b"\n") + 1]


def test_a_live_journal_is_read_on_from_its_last_complete_line(tmp_path):
    journal = tmp_path / "trajectories.jsonl"
    index = refresh(journal)
    assert index.summaries == []
    append_trajectory(journal, make_trajectory("rft/a/0"))
    append_trajectory(journal, make_trajectory("rft/a/1"))
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-9])
    index.refresh()
    [first] = index.summaries
    assert index.end == first.size
    journal.write_bytes(whole)
    index.refresh()
    assert [each.trajectory_id for each in index.summaries] == ["rft/a/0", "rft/a/1"] and index.summaries[0] is first


def test_a_shorter_journal_is_read_anew(tmp_path):
    journal = tmp_path / "trajectories.jsonl"
    for name in ("rft/a/0", "rft/a/1"):
        append_trajectory(journal, make_trajectory(name))
    index = refresh(journal)
    journal.unlink()
    append_trajectory(journal, make_trajectory("rft/b/0"))
    index.refresh()
    assert [each.trajectory_id for each in index.summaries] == ["rft/b/0"]


def test_a_repeated_rollout_counts_once(tmp_path):
    journal = tmp_path / "trajectories.jsonl"
    for outcome in (Outcome.ENGINE_FAILED, Outcome.RESOLVED):
        append_trajectory(journal, make_trajectory("rft/a/0").grow(outcome=outcome))
    [latest] = refresh(journal).list_latest()
    assert latest.outcome == Outcome.RESOLVED


def test_damaged_lines_are_named_and_the_rest_is_read(tmp_path):
    journal = tmp_path / "trajectories.jsonl"
    append_trajectory(journal, make_trajectory("rft/a/0"))
    start = journal.stat().st_size
    line = journal.read_bytes()
    unknown = line.replace(b'"outcome":"resolved"', b'"outcome":"from a newer version"')
    deep = line.replace(b'"seed":0', b'"seed":' + b"[" * 100_000)
    damaged = [
        b"[]\n",
        b'{"turns":[],"stop_reason":""}\n',
        b'{"a":1,"turns":[],"stop_reason":"x"}\n',
        b"\xff\n",
        unknown,
        deep,
    ]
    with journal.open("ab") as file:
        file.writelines(damaged)
    append_trajectory(journal, make_trajectory("rft/a/1"))
    index = refresh(journal)
    assert [each.trajectory_id for each in index.summaries] == ["rft/a/0", "rft/a/1"]
    assert len(index.faults) == len(damaged) and f"{journal} is damaged at byte {start} (" in index.faults[0]
    assert len(list(read_trajectories(journal, containing='"rft/a/1"'))) == 1


def test_lost_arrays_leave_the_number_of_tokens_unknown(tmp_path):
    journal = tmp_path / "trajectories.jsonl"
    append_trajectory(journal, make_trajectory("rft/a/0"))
    arrays = arrays_file(journal)
    arrays.write_bytes(arrays.read_bytes()[:-1])
    assert refresh(journal).summaries[0].num_tokens is None
    arrays.unlink()
    assert refresh(journal).summaries[0].num_tokens is None
    assert json.loads(journal.read_text())["arrays"]["size"] > 0
