"""`turnsmith provenance`: a run whose journals are as engines left them, and the same with one number changed."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import make_config, make_trajectory
from support.episodes.digests import with_digests
from turnsmith.cli import make_app
from turnsmith.recipes.review import provenance
from turnsmith.rollouts.samples import to_sample
from turnsmith.runs.folder import RunFolder, claim
from turnsmith.runs.journal import append_trajectory, arrays_file
from turnsmith.types import MicroBatch, Outcome


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    claim(folder, make_config().model_dump(mode="json"))
    for journal, stage in (
        (folder.iteration("rft", 0).trajectories, "rft"),
        (folder.iteration("stage1", 0).trajectories, "stage1-0000"),
        (folder.eval_trajectories("stage1", "practice"), "eval-stage1/practice"),
    ):
        for index in range(2):
            append_trajectory(journal, with_digests(make_trajectory(f"{stage}/a/{index}")))
    return folder


def call(folder, *options, exit_code=0):
    result = CliRunner().invoke(make_app(), ["provenance", str(folder.path), *options])
    assert result.exit_code == exit_code, result.output
    return result


def change(journal, old, new, at):
    """One of the bytes of a kind in the arrays of a journal."""
    data = bytearray(arrays_file(journal).read_bytes())
    place = -1
    for _ in range(at + 1):
        place = data.index(old, place + 1)
    data[place : place + len(old)] = new
    arrays_file(journal).write_bytes(data)


def test_an_unchanged_run_is_proven(folder):
    assert call(folder).stdout.split() == "proven 6 trajectories, 12 turns, 24 sampled tokens".split()
    told = json.loads(call(folder, "--json").stdout)
    assert told["sampled_tokens"] == 24 and told["broken"] is None


def test_one_changed_number_in_a_journal_breaks_its_link(folder):
    """The log-prob of the last token of the second trajectory, by one ulp."""
    journal, logprob = folder.iteration("stage1", 0).trajectories, np.float32(-0.25)
    change(journal, logprob.tobytes(), np.nextafter(logprob, np.float32(0)).tobytes(), at=3)
    told = json.loads(call(folder, "--json", exit_code=1).stdout)["broken"]
    assert told == {
        "link": "engine → journal", "journal": str(journal), "trajectory_id": "stage1-0000/a/1", "turn": 2,
        "fault": "tokens 5 to 7: log-probs are not those of the engine",
    }  # fmt: skip
    shown = call(folder, exit_code=1).stdout
    assert "engine → journal: stage1-0000/a/1, turn 2: tokens 5 to 7: log-probs are not those of the engine" in shown


def test_wrong_samples_or_batches_name_the_broken_link(folder, monkeypatch):
    def shifted(trajectory, advantage):
        return to_sample(trajectory.grow(logprobs=trajectory.logprobs - np.float32(0.1)), advantage)

    def pack_backwards(samples, max_tokens):
        columns = MicroBatch(samples).join().joined
        return [MicroBatch(samples, columns | {"token_ids": columns["token_ids"][::-1]})]

    with monkeypatch.context() as patch:
        patch.setattr(provenance, "to_sample", shifted)
        told = json.loads(call(folder, "--json", exit_code=1).stdout)["broken"]
    assert (told["link"], told["trajectory_id"], told["turn"]) == ("journal → sample", "stage1-0000/a/0", 1)
    monkeypatch.setattr(provenance, "pack", pack_backwards)
    told = json.loads(call(folder, "--json", exit_code=1).stdout)["broken"]
    assert (told["link"], told["trajectory_id"]) == ("sample → micro-batch", "rft/a/0")


def test_unproven_trajectories_are_counted_without_a_broken_link(folder):
    journal = folder.iteration("stage1", 1).trajectories
    append_trajectory(journal, make_trajectory("stage1-0001/a/0"))
    append_trajectory(journal, make_trajectory("stage1-0001/a/1", Outcome.ENGINE_FAILED))
    shown = call(folder).stdout
    assert "proven        6 trajectories" in shown
    assert re.search(r"not proven +1 trajector.*digest", shown)
    assert re.search(r"not proven +1 trajector.*lost", shown)


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    result = CliRunner().invoke(make_app(), ["provenance", str(tmp_path)])
    assert result.exit_code == 2 and "run folder" in result.stderr
