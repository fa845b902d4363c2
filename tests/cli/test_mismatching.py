"""`turnsmith mismatch` on a run with an honest engine: tables, JSON, a picture, and sentences where something is missing."""

import json
import shutil

import pytest

from turnsmith.runs.folder import RunFolder

pytestmark = pytest.mark.slow


def test_an_honest_run_is_inside_rounding_and_what_is_missing_is_said(turnsmith, config_file, tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert turnsmith("rl", config_file, "--out", folder.path).exit_code == 0
    result = turnsmith("mismatch", folder.path, "--out", tmp_path / "gap.png")
    assert result.exit_code == 0, result.output
    assert "stage1/1, 4 rollouts" in result.stdout and "rounding" in result.stdout
    assert "the policy in float32" in result.stdout and "eager attention" in result.stdout
    assert (tmp_path / "gap.png").read_bytes().startswith(b"\x89PNG")
    told = json.loads(turnsmith("mismatch", folder.path, "--iteration", 0, "--limit", 2, "--json").stdout)
    assert (told["iteration"], told["num_trajectories"], told["weights"]) == (0, 2, "the base")
    assert told["gap"] < 1e-5 and told["conclusion"].startswith("nothing")
    assert any("update" in remark for remark in told["remarks"])
    shutil.rmtree(folder.checkpoint("stage1", 0))
    for arguments, sentence in {
        ("--iteration", 7): "stage1/0, stage1/1",
        ("--stage", "rft"): "rollouts",
        ("--iteration", 1): "stage1/0",
    }.items():
        refused = turnsmith("mismatch", folder.path, *arguments)
        assert refused.exit_code == 2 and sentence in refused.stderr, refused.output
    assert turnsmith("mismatch", tmp_path / "nowhere").exit_code == 2
