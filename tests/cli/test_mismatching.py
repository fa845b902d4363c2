"""`turnsmith mismatch` on a run with an honest engine: tables, JSON, and messages about missing rollouts and weights."""

import json
import shutil

import pytest

from turnsmith.runs.folder import RunFolder

pytestmark = pytest.mark.slow


def test_the_gap_of_a_run_is_rounding_and_missing_iterations_are_named(turnsmith, config_file, tmp_path):
    folder = RunFolder(tmp_path / "run")
    assert turnsmith("rl", config_file, "--out", folder.path).exit_code == 0
    result = turnsmith("mismatch", folder.path)
    assert result.exit_code == 0, result.output
    assert "stage1/1, 4 rollouts" in result.stdout and "rounding" in result.stdout
    assert "the policy in float32" in result.stdout and "eager attention" in result.stdout
    report = json.loads(turnsmith("mismatch", folder.path, "--iteration", 0, "--limit", 2, "--json").stdout)
    assert (report["iteration"], report["num_trajectories"], report["weights"]) == (0, 2, "the base")
    assert report["gap"] < 1e-5 and report["conclusion"].startswith("nothing")
    assert any("update" in remark for remark in report["remarks"])
    shutil.rmtree(folder.iteration("stage1", 0).checkpoint)
    for arguments, sentence in {
        ("--iteration", 7): "stage1/0, stage1/1",
        ("--stage", "rft"): "rollouts",
        ("--iteration", 1): "stage1/0",
    }.items():
        refused = turnsmith("mismatch", folder.path, *arguments)
        assert refused.exit_code == 2 and sentence in refused.stderr, refused.output
    assert turnsmith("mismatch", tmp_path / "nowhere").exit_code == 2
