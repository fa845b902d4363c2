"""Export of a policy: same outputs as the checkpoint, and a model card with the facts of the run."""

import json
import os
import re
import shutil
import subprocess

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from support.models.small_tokenizers import CHATML
from turnsmith.runs.folder import RunFolder, append_record, claim, read_json, write_json
from turnsmith.runs.versions import Versions
from turnsmith.training.checkpoint import save_checkpoint
from turnsmith.training.directories import find_model
from turnsmith.ui.reading import read_results

TOKEN_IDS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
VLLM = os.environ.get("TURNSMITH_VLLM", "")
"""Interpreter with vLLM."""
GENERATE = """
import sys
from vllm import LLM, SamplingParams

if __name__ == "__main__":
    model = LLM(sys.argv[1], max_model_len=256, enforce_eager=True)
    [answer] = model.chat([{"role": "user", "content": "def total"}], SamplingParams(max_tokens=4, ignore_eos=True))
    settings = model.get_default_sampling_params()
    print("tokens", len(answer.outputs[0].token_ids), settings.temperature, settings.top_k, settings.top_p)
"""


@pytest.fixture
def finished_run(run_folder, model_directory):
    """Return a run with different weights in the last two checkpoints of the last stage and in that of RFT."""
    for number, (stage, iteration) in enumerate([("rft", 0), ("stage2", 3), ("stage2", 4)]):
        model = AutoModelForCausalLM.from_pretrained(model_directory, dtype=torch.float32)
        with torch.no_grad():
            model.get_input_embeddings().weight.mul_(2.0 + number)
        save_checkpoint(run_folder.iteration(stage, iteration).checkpoint, model, {})
    write_json(run_folder.results, read_results(run_folder))
    return run_folder


def load(directory, **options):
    return AutoModelForCausalLM.from_pretrained(directory, **options)


@torch.no_grad()
def logits(directory):
    return load(directory, dtype=torch.float32)(TOKEN_IDS).logits


@pytest.mark.parametrize(
    ("options", "stage", "iteration"),
    [([], "stage2", 4), (["--checkpoint", "rft"], "rft", 0), (["--checkpoint", "stage2@4"], "stage2", 3)],
)
def test_an_exported_policy_computes_what_its_checkpoint_computes(
    turnsmith, finished_run, tmp_path, options, stage, iteration
):
    result = turnsmith("export", finished_run.path, "--out", tmp_path / "model", "--json", *options)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["checkpoint"] == (options or [None, "stage2"])[1]
    checkpoint = finished_run.iteration(stage, iteration).checkpoint
    torch.testing.assert_close(logits(tmp_path / "model"), logits(checkpoint), rtol=0, atol=0)
    ours, theirs = (AutoTokenizer.from_pretrained(path) for path in (tmp_path / "model", checkpoint))
    message = [{"role": "user", "content": "def total"}]
    assert ours.apply_chat_template(message) == theirs.apply_chat_template(message)
    assert not (tmp_path / "model" / "trainer.pt").exists()


def test_the_card_names_the_software_of_training(turnsmith, finished_run, tmp_path):
    def read_card(name):
        assert turnsmith("export", finished_run.path, "--out", tmp_path / name).exit_code == 0
        return (tmp_path / name / "README.md").read_text()

    assert re.search(r"trained with .*versions", read_card("unknown"))
    old = {"turnsmith": "0.1.9 (commit 1a2b3c4d5e6f)", "torch": "2.1.0", "python": "3.11.0"}
    append_record(finished_run.versions, Versions(since="2026-01-02 03:04:05", software=old))
    card = read_card("first")
    assert "turnsmith 0.1.9 (commit 1a2b3c4d5e6f), torch 2.1.0, python 3.11.0\n" in card
    assert torch.__version__ not in card
    append_record(finished_run.versions, Versions(since="2026-02-03 04:05:06", software=old | {"torch": "2.2.0"}))
    card = read_card("second")
    assert re.search(r"2026-01-02 03:04:05.* turnsmith", card) and "torch 2.1.0" in card and "torch 2.2.0" in card


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600)])
def test_exported_files_follow_the_umask(turnsmith, finished_run, tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        assert turnsmith("export", finished_run.path, "--out", tmp_path / "model").exit_code == 0
    finally:
        os.umask(before)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in (tmp_path / "model").iterdir()}
    assert "model.safetensors" in modes and set(modes.values()) == {oct(mode)}
    assert (tmp_path / "model").stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_checkpoint_follows_the_umask(finished_run):
    files = [path for path in finished_run.iteration("rft", 0).checkpoint.rglob("*") if path.is_file()]
    assert len({file.stat().st_mode for file in files}) == 1


def test_an_exported_policy_samples_as_it_was_trained(turnsmith, finished_run, tmp_path):
    assert turnsmith("export", finished_run.path, "--out", tmp_path / "model").exit_code == 0
    settings = GenerationConfig.from_pretrained(tmp_path / "model")
    end = AutoTokenizer.from_pretrained(tmp_path / "model").convert_tokens_to_ids("<|im_end|>")
    assert (settings.temperature, settings.top_k, settings.top_p, settings.eos_token_id) == (1.0, 0, 1.0, [end])


def test_an_exported_policy_has_the_chat_template_of_its_run(turnsmith, finished_run, tmp_path):
    own, config = tmp_path / "own.jinja", read_json(finished_run.config)
    own.write_text("{# of one's own #}" + CHATML)
    write_json(finished_run.config, {**config, "model": {**config["model"], "chat": {"template": str(own)}}})
    result = turnsmith("export", finished_run.path, "--out", tmp_path / "model")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "model" / "chat_template.jinja").read_text() == own.read_text()
    assert "template own.jinja, system_prompt system-message" in (tmp_path / "model" / "README.md").read_text()


def test_bfloat16_weights_are_the_rounded_checkpoint(turnsmith, finished_run, tmp_path):
    assert turnsmith("export", finished_run.path, "--out", tmp_path / "model", "--dtype", "bfloat16").exit_code == 0
    assert read_json(tmp_path / "model" / "config.json")["dtype"] == "bfloat16"
    exact = load(finished_run.iteration("stage2", 4).checkpoint, dtype=torch.float32).state_dict()
    for name, tensor in load(tmp_path / "model", dtype="auto").state_dict().items():
        assert torch.equal(tensor, exact[name].to(torch.bfloat16)), name


def test_the_card_repeats_the_figures_of_the_run_folder(turnsmith, finished_run, tmp_path):
    assert turnsmith("export", finished_run.path, "--out", tmp_path / "model").exit_code == 0
    card = ModelCard.load(tmp_path / "model" / "README.md")
    told = {(each.dataset_name, each.metric_type): each.metric_value for each in card.data.eval_results}
    final = [result for result in read_results(finished_run) if result["stage"] == "stage2"]
    assert {(each["task_set"], "pass@1"): each["pass_at_1"] for each in final}.items() <= told.items()
    for piece in ("| practice | stage2 | 58.0 ± 2.0 % |", "toolz==1.0.0", "isolation obtained: local", "`tiny`"):
        assert piece in card.text
    assert str(tmp_path) not in card.text


def test_the_gain_over_the_base_has_an_interval(turnsmith, finished_run, tmp_path):
    for stage, rates in {"base": [0.0, 0.5, 0.0], "stage2": [1.0, 0.5, 0.5]}.items():
        file = finished_run.result(stage, "practice")
        write_json(file, read_json(file) | {"per_task": {f"practice-{at}": rate for at, rate in enumerate(rates)}})
    assert turnsmith("export", finished_run.path, "--out", tmp_path / "model").exit_code == 0
    comparison = turnsmith("compare", f"{finished_run.path}:base", f"{finished_run.path}:stage2", "--json")
    low, high = json.loads(comparison.stdout)[0]["interval_95"]
    gain = f"+50.0 points, 95 % interval {100 * low:+.1f} to {100 * high:+.1f}"
    assert gain in (tmp_path / "model" / "README.md").read_text()


def remove_results(folder):
    folder.results.unlink()


def want_more_iterations(folder):
    config = read_json(folder.config)
    config["stages"][1]["iterations"] = 9
    write_json(folder.config, config)


def remove_checkpoints(folder):
    for iteration in (3, 4):
        shutil.rmtree(folder.iteration("stage2", iteration).checkpoint)


@pytest.mark.parametrize(
    ("change", "options", "pieces"),
    [
        (remove_results, [], ["`turnsmith resume"]),
        (want_more_iterations, [], ["is not finished"]),
        (remove_checkpoints, [], ["checkpoint", "stage2"]),
        (None, ["--checkpoint", "stage3"], ["'stage3'", "rft, stage1, stage2"]),
        (None, ["--checkpoint", "stage2@2"], ["'stage2@2'", "stage2@4, stage2@5"]),
        (None, ["--checkpoint", "stage2@x"], ["'stage2@x'"]),
    ],
)
def test_a_missing_checkpoint_is_a_usage_error(turnsmith, finished_run, tmp_path, change, options, pieces):
    if change:
        change(finished_run)
    result = turnsmith("export", finished_run.path, "--out", tmp_path / "model", *options)
    assert result.exit_code == 2 and all(piece in result.stderr for piece in pieces), result.output
    assert not (tmp_path / "model").exists()


def test_a_run_without_training_cannot_be_exported(turnsmith, tmp_path):
    claim(RunFolder(tmp_path / "run"), {"eval_tasks": {"practice": {"practice_tasks": 1}}})
    result = turnsmith("export", tmp_path / "run", "--out", tmp_path / "model")
    assert result.exit_code == 2 and "RFT or RL" in result.stderr


def test_an_existing_folder_is_not_overwritten(turnsmith, finished_run, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "mine").write_text("mine")
    result = turnsmith("export", finished_run.path, "--out", tmp_path / "model")
    assert result.exit_code == 2 and "exists" in result.stderr
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["mine"]


@pytest.mark.slow
@pytest.mark.skipif(not VLLM, reason="TURNSMITH_VLLM names no interpreter that has vLLM")
def test_vllm_generates_from_an_exported_policy(turnsmith, finished_run, tmp_path):
    """Test with the shipped policy, because vLLM does not support the small heads of the random model."""
    shipped = AutoModelForCausalLM.from_pretrained(find_model("tiny"), dtype=torch.float32)
    save_checkpoint(finished_run.iteration("stage2", 4).checkpoint, shipped, {})
    assert turnsmith("export", finished_run.path, "--out", tmp_path / "model", "--dtype", "bfloat16").exit_code == 0
    script = tmp_path / "generate.py"
    script.write_text(GENERATE)
    variables = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1"}
    done = subprocess.run(
        [VLLM, script, tmp_path / "model"], env=variables, capture_output=True, text=True, timeout=280
    )
    assert "tokens 4 1.0 0 1.0" in done.stdout, done.stderr[-2000:]
