import fcntl
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import field_validator

from turnsmith.errors import UsageError
from turnsmith.io.files import replacing
from turnsmith.runs.folder import (
    RunFolder,
    append_record,
    claim,
    drop_old_checkpoints,
    is_held,
    list_differences,
    locked,
    read_json,
    read_records,
    sweep,
    write_json,
)
from turnsmith.types import Record


class Note(Record):
    text: str

    @field_validator("text")
    @classmethod
    def _says_something(cls, value: str) -> str:
        if not value:
            raise ValueError("nothing is said")
        return value


NOTES = [Note(text=text) for text in ("first", "zweite", "третья\u2028\n", "4")]


def write_journal(path, notes):
    for note in notes:
        append_record(path, note)
    return path


def test_a_journal_reads_back_in_order(tmp_path):
    journal = write_journal(tmp_path / "new" / "notes.jsonl", NOTES)
    assert list(read_records(journal, Note)) == NOTES
    assert list(read_records(tmp_path / "none.jsonl", Note)) == []


def test_a_journal_torn_anywhere_keeps_every_whole_line_and_goes_on(tmp_path):
    whole = write_journal(tmp_path / "whole.jsonl", NOTES).read_bytes()
    for length in range(len(whole) + 1):
        torn = tmp_path / "torn.jsonl"
        torn.write_bytes(whole[:length])
        kept = NOTES[: whole[:length].count(b"\n")]
        assert list(read_records(torn, Note)) == kept
        append_record(torn, NOTES[0])
        assert list(read_records(torn, Note)) == [*kept, NOTES[0]]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "metrics.json"
    write_json(path, {"a": 1})
    with pytest.raises(RuntimeError), replacing(path) as temporary:
        temporary.write_text('{"a":')
        raise RuntimeError("killed")
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_reading_what_is_no_run_folder_says_so(tmp_path):
    with pytest.raises(UsageError, match=r"config.json .*run folder"):
        read_json(RunFolder(tmp_path).config)
    for text, fault in {"{": "at column 2", "[" * 100_000: "nested too deeply", "9" * 5_000: "too many digits"}.items():
        RunFolder(tmp_path).config.write_text(text)
        with pytest.raises(UsageError, match=f"damaged .*{fault}"):
            read_json(RunFolder(tmp_path).config)


def test_a_folder_where_another_is_at_work_is_refused(tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.config, {})
    with locked(folder), pytest.raises(UsageError, match="another process"), locked(folder):
        pass
    with locked(folder):
        pass


def test_a_folder_is_held_while_a_process_works_in_it_and_not_by_those_who_look(tmp_path):
    folder = RunFolder(tmp_path)
    write_json(folder.config, {})
    with locked(folder):
        assert is_held(folder)
    with folder.config.open("rb") as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not is_held(folder)
    assert not is_held(folder)


def test_a_folder_without_a_configuration_is_not_held(tmp_path):
    assert not is_held(RunFolder(tmp_path))


def test_a_damaged_line_of_a_journal_is_named(tmp_path):
    journal = tmp_path / "notes.jsonl"
    append_record(journal, NOTES[0])
    with journal.open("a") as file:
        file.write("{}\n")
    with pytest.raises(UsageError, match=r"notes\.jsonl:2 .*remove"):
        list(read_records(journal, Note))
    journal.write_text('{"text": ""}\n')
    with pytest.raises(UsageError, match=r"notes\.jsonl:1 .*remove"):
        list(read_records(journal, Note))


def test_the_next_iteration_is_the_first_without_metrics(tmp_path):
    folder = RunFolder(tmp_path)
    assert folder.next_iteration("stage1") == 0
    for iteration in (0, 1, 3):
        write_json(folder.iteration("stage1", iteration).metrics, {})
    append_record(folder.iteration("stage1", 2).trajectories, NOTES[0])
    assert folder.next_iteration("stage1") == 2


def test_what_a_kill_left_is_swept_and_nothing_else(tmp_path):
    folder = RunFolder(tmp_path)
    kept = [
        folder.config, folder.iteration("one", 3).checkpoint / "model.safetensors", folder.task_set("train") / "tasks.jsonl",
        folder.task_set("train") / "bug" / ".git" / ".x.tmp", tmp_path / ".git" / "HEAD",
    ]  # fmt: skip
    left = [
        tmp_path / ".curves.png.12.tmp", tmp_path / "tasks" / ".train.turnsmith-a1b2c3d4" / "tasks.jsonl",
        folder.iteration("one", 3).path / ".checkpoint.12.tmp" / "model.safetensors",
        folder.iteration("one", 3).path / ".checkpoint.12.old" / "model.safetensors",
        folder.iteration("one", 3).path / ".metrics.json.12.tmp", folder.evaluation("base", "x") / ".result.json.12.tmp",
    ]  # fmt: skip
    for path in [*kept, *left]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    sweep(folder, 2)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert not [path for path in left if path.parent.name.startswith(".") and path.parent.exists()]


def test_of_the_iterations_that_are_done_the_last_two_checkpoints_stay(tmp_path):
    folder = RunFolder(tmp_path)
    for stage, num_done in (("one", 4), ("two", 1), ("rft", 1)):
        for iteration in range(num_done):
            write_json(folder.iteration(stage, iteration).metrics, {})
        for iteration in range(num_done + 1):
            folder.iteration(stage, iteration).checkpoint.mkdir(parents=True)
    sweep(folder, 2)
    kept = {str(path.relative_to(tmp_path / "stages")) for path in tmp_path.glob("stages/*/*/checkpoint")}
    places = [("one", 2), ("one", 3), ("one", 4), ("two", 0), ("two", 1), ("rft", 0), ("rft", 1)]
    assert kept == {f"{stage}/iteration-{iteration:04d}/checkpoint" for stage, iteration in places}


def test_a_folder_is_claimed_once_and_found_again(tmp_path):
    folder = RunFolder(tmp_path / "a" / "run")
    assert claim(folder, {"seed": 1, "rft": {"epochs": 2}}) is True
    assert claim(folder, {"seed": 1, "rft": {"epochs": 2}}) is False
    assert folder.is_untouched()
    write_json(folder.iteration("rft", 0).metrics, {})
    assert not folder.is_untouched()


def test_a_folder_of_another_configuration_is_refused_and_left_as_it_was(tmp_path):
    folder = RunFolder(tmp_path)
    claim(folder, {"seed": 1, "rft": {"epochs": 2}})
    before = folder.config.read_bytes()
    with pytest.raises(UsageError, match=r"rft\.epochs.*turnsmith resume"):
        claim(folder, {"seed": 1, "rft": {"epochs": 3}})
    assert folder.config.read_bytes() == before


def test_a_folder_with_other_things_in_it_is_refused(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(UsageError, match=str(tmp_path)):
        claim(RunFolder(tmp_path), {})
    with pytest.raises(UsageError, match=str(tmp_path)):
        claim(RunFolder(tmp_path / "thesis.tex"), {})
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


values = st.recursive(
    st.integers(0, 2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)


@given(values, values)
def test_a_difference_is_named_if_and_only_if_there_is_one(old, new):
    found = next(list_differences({"root": old}, {"root": new}), "")
    assert (found == "") == (json.dumps(old, sort_keys=True) == json.dumps(new, sort_keys=True))
    assert found == "" or found.startswith("root")


def test_so_many_checkpoints_stay_as_are_asked_for_and_0_keeps_all(tmp_path):
    folder = RunFolder(tmp_path)
    for iteration in range(5):
        write_json(folder.iteration("one", iteration).metrics, {})
        folder.iteration("one", iteration).checkpoint.mkdir(parents=True)
    for num_kept, expected in ((0, 5), (3, 3), (1, 1)):
        drop_old_checkpoints(folder, "one", num_kept)
        assert [folder.iteration("one", at).checkpoint.exists() for at in range(5)] == [
            at >= 5 - expected for at in range(5)
        ]
