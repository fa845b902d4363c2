import json
import re

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from conftest import make_trajectory
from turnsmith.errors import UsageError
from turnsmith.recipes.results import RESULT_FIELDS
from turnsmith.runs.folder import RunFolder, claim, read_json, write_json
from turnsmith.runs.journal import append_trajectory
from turnsmith.tasks.dataset import save_tasks
from turnsmith.types import Message, Outcome, Task
from turnsmith.ui.reading import (
    find_task,
    list_entries,
    name_stage,
    read_iterations,
    read_outline,
    read_prompt,
    read_results,
)

TASK = Task(
    instance_id="practice-1.swap.1f3a9c04", repo="practice-1", base_commit="0" * 40, problem_statement="It is broken.",
    FAIL_TO_PASS=["t"], PASS_TO_PASS=[], patch="", layers=["."],
)  # fmt: skip


def test_results_are_in_the_order_of_the_run(run_folder):
    results = read_results(run_folder)
    assert [result["stage"] for result in results] == [
        "base",
        "base",
        "rft",
        "rft",
        "stage1",
        "stage1",
        "stage2",
        "stage2",
    ]
    assert [result["task_set"] for result in results[:2]] == ["practice", "package"]
    assert all(tuple(result) == RESULT_FIELDS for result in results)


@pytest.mark.parametrize("text", ["{}", "[]", '{"stage": "base"}', "{", ""])
def test_a_damaged_result_is_named(run_folder, text):
    file = run_folder.result("base", "practice")
    file.write_text(text)
    with pytest.raises(UsageError, match=f"{file} "):
        read_results(run_folder)


def test_iterations_are_in_the_order_of_the_run_and_rft_counts_as_one(run_folder):
    iterations = [(iteration.stage, iteration.number) for iteration in read_iterations(run_folder)]
    assert iterations == [("rft", 0), *(("stage1", n) for n in range(5)), *(("stage2", n) for n in range(5))]


def find_ids(run_folder, *asked):
    return [entry.trajectory.trajectory_id for entry in list_entries(run_folder, *asked)]


def test_trajectories_are_found_by_the_beginning_of_their_id(run_folder):
    assert len(find_ids(run_folder, "eval-base")) == 2
    one = "eval-rft/practice-1.swap.1f3a9c04/1"
    assert find_ids(run_folder, one) == [one]
    assert find_ids(run_folder, "practice") == []


def test_every_trajectory_is_found_by_its_unique_short_id(run_folder):
    entries = list(list_entries(run_folder))
    short_ids = {entry.short_id for entry in entries}
    assert len(short_ids) == len(entries) == 8
    for entry in entries:
        assert re.fullmatch(r"[a-z2-7]{10}", entry.short_id)
        assert list(list_entries(run_folder, entry.short_id)) == [entry]
        assert list(list_entries(run_folder, entry.short_id[:9])) == []


def test_a_short_id_does_not_change_if_the_journal_is_renamed(run_folder):
    before = {entry.short_id for entry in list_entries(run_folder, "eval-stage1")}
    run_folder.evaluations("stage1").rename(run_folder.evaluations("stage1@5"))
    moved = list(list_entries(run_folder, "eval-stage1"))
    assert {entry.short_id for entry in moved} == before
    assert {name_stage(entry) for entry in moved} == {"eval-stage1@5"}


def test_attempts_at_a_task_are_found_in_all_stages(run_folder):
    append_trajectory(run_folder.iteration("stage2", 3).trajectories, make_trajectory("stage2-0003/practice-12/4"))
    assert len(find_ids(run_folder, "", "practice-1")) == 9
    assert len(find_ids(run_folder, "", "practice-1.")) == 8
    [entry] = list_entries(run_folder, "stage2", "practice-12")
    assert name_stage(entry) == "stage2-0003"


def test_a_journal_of_an_older_version_is_read(run_folder):
    journal = run_folder.eval_trajectories("base", "practice")
    new = ("form", "prompt", "isolation", "prompt_tokens", "detail")
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    journal.write_text("".join(json.dumps({k: v for k, v in line.items() if k not in new}) + "\n" for line in lines))
    assert len(find_ids(run_folder, "eval-base")) == 2


def write_tokenizer(folder, words):
    vocabulary = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=words[0]))
    tokenizer.add_special_tokens([words[1]])
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_a_prompt_is_read_by_the_tokenizer_of_the_model_or_of_a_checkpoint(run_folder, tmp_path):
    [entry] = list_entries(run_folder, "eval-base/practice-1.swap.1f3a9c04/0")
    words = ["?", "<|system|>", "You", "fix", "it"]
    config = read_json(run_folder.config)
    write_json(run_folder.config, config | {"model": {"path": str(tmp_path / "gone")}})
    with pytest.raises(UsageError, match=r"tokenizer\.json .*/gone"):
        read_prompt(run_folder, entry.trajectory)
    write_tokenizer(run_folder.iteration("rft", 0).checkpoint, words)
    assert read_prompt(run_folder, entry.trajectory) == "<|system|> You"
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/tokenizer.json").write_text("{")
    write_json(run_folder.config, config | {"model": {"path": str(tmp_path / "broken")}})
    with pytest.raises(UsageError, match="copy"):
        read_prompt(run_folder, entry.trajectory)


def test_a_prompt_of_messages_names_the_roles(run_folder):
    said = [Message(role="system", text="You fix it."), Message(role="user", text="It is broken.")]
    trajectory = make_trajectory("eval-base/a/0").grow(form="messages", prompt=said)
    assert read_prompt(run_folder, trajectory) == "[system]\nYou fix it.\n\n[user]\nIt is broken."


def test_only_the_last_attempt_at_a_lost_rollout_is_read(run_folder):
    first, second = (entry.trajectory for entry in list_entries(run_folder, "eval-base"))
    made_again = first.model_copy(update={"outcome": Outcome.RESOLVED, "detail": "made again"})
    [journal] = [path for path in run_folder.journals() if first.trajectory_id in path.read_text()]
    append_trajectory(journal, made_again)
    assert [entry.trajectory for entry in list_entries(run_folder, "eval-base")] == [made_again, second]
    assert [entry.trajectory for entry in list_entries(run_folder, first.trajectory_id)] == [made_again]


def test_the_task_of_a_trajectory_is_found_in_its_set(run_folder):
    assert find_task(run_folder, TASK.instance_id) is None
    save_tasks(run_folder.task_set("practice"), [TASK])
    assert find_task(run_folder, TASK.instance_id) == TASK


def test_only_displayed_keys_of_a_configuration_are_validated(run_folder):
    before, config = read_outline(run_folder), read_json(run_folder.config)
    config |= {"gone": 1, "rft": config["rft"] | {"num_wizards": 3}, "sandbox": {"kind": "local", "memory_mb": "much"}}
    config["stages"] = [stage | {"algorithm": "ours"} for stage in config["stages"]]
    write_json(run_folder.config, config)
    assert read_outline(run_folder) == before.model_copy(update={"rft": config["rft"]})
    assert len(read_results(run_folder)) == 8


def test_a_missing_displayed_key_is_named(tmp_path):
    folder = RunFolder(tmp_path)
    claim(folder, {"stages": [{"iterations": 3}]})
    with pytest.raises(UsageError, match=r"config.json: .*'stages.0.name'"):
        read_outline(folder)


def test_a_result_of_an_older_version_has_empty_fields(run_folder):
    file = run_folder.result("base", "practice")
    write_json(file, {"pass_at_1": 0.2, "per_task": {"a": 0.2}})
    assert read_results(run_folder)[0] == dict.fromkeys(RESULT_FIELDS) | {
        "stage": "base",
        "task_set": "practice",
        "pass_at_1": 0.2,
    }
