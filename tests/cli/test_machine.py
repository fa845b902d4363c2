import json
import re
import sys

import pytest
from packaging.requirements import Requirement

from turnsmith.cli.machine import (
    examine_accelerators,
    examine_disk,
    examine_extra,
    examine_git,
    examine_memory,
    examine_openmp,
    find_requirements,
)
from turnsmith.config.extras import EXTRAS
from turnsmith.engines.torch.compiled import HAS_OPENMP


def test_memory_is_the_available_memory_of_the_kernel(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n")
    finding = examine_memory(meminfo)
    assert not finding.ok and re.search(r"1\.0 GB free.* 3 GB", finding.detail)
    assert "rollouts.concurrency" in finding.remedy
    meminfo.write_text("MemAvailable:    8388608 kB\n")
    assert examine_memory(meminfo).ok


@pytest.mark.parametrize(
    ("wanted", "detail"),
    [
        ("pytest>=1", "metrics in MLflow"),
        ("pytest>=1000", f"metrics in MLflow; pytest {pytest.__version__}, wanted >=1000"),
        ("no-such-package", "metrics in MLflow; no no-such-package"),
    ],
)
def test_packages_of_an_extra_must_have_admitted_versions(wanted, detail):
    finding = examine_extra("mlflow", [Requirement(wanted), Requirement("numpy")])
    assert (finding.ok, finding.detail) == (wanted == "pytest>=1", detail)
    assert finding.remedy == ("" if finding.ok else "pip install 'turnsmith[mlflow]'")


def test_each_package_of_an_extra_is_checked_once():
    required = {name: {requirement.name for requirement in find_requirements(name)} for name in EXTRAS}
    assert required["train"] == {"torch", "transformers", "tokenizers", "numba", "httpx2", "matplotlib"}
    assert required["hub"] - required["data"] == {"huggingface-hub"}
    assert all(required.values())


def test_a_machine_without_git_gets_a_remedy(monkeypatch, tmp_path):
    assert examine_git().ok
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (examine_git().ok, "install git" in examine_git().remedy) == (False, True)


def test_decoding_is_compiled_only_with_openmp():
    assert examine_openmp().ok is HAS_OPENMP
    finding = examine_openmp("libgomp-of-nobody.so")
    assert (finding.ok, finding.remedy) == (False, "apt-get install libgomp1")


def test_disk_space_is_measured_in_the_folder_of_runs(tmp_path):
    assert examine_disk(tmp_path).detail.endswith("GB free") or examine_disk(tmp_path).remedy


def answering(text):
    return [sys.executable, "-c", f"print({text!r})"]


def test_accelerators_are_named_with_their_memory():
    answer = {"build": "2.13.0+cu130", "devices": [["NVIDIA H200", 150 * 2**30], ["NVIDIA H200", 150 * 2**30]]}
    finding = examine_accelerators(command=answering(json.dumps(answer)))
    assert (finding.ok, finding.detail) == (True, "NVIDIA H200, 150 GB; NVIDIA H200, 150 GB (torch 2.13.0+cu130)")


def test_an_accelerator_that_torch_cannot_use_is_a_fault_and_none_is_not(tmp_path):
    command = answering(json.dumps({"build": "2.13.0+cpu", "devices": []}))
    assert examine_accelerators(tmp_path, command).ok
    (tmp_path / "nvidia0").touch()
    finding = examine_accelerators(tmp_path, command)
    assert (finding.ok, "torch 2.13.0+cpu" in finding.detail, bool(finding.remedy)) == (False, True, True)


@pytest.mark.parametrize(
    ("program", "detail"),
    [
        ("import no_torch", "torch cannot be imported: ModuleNotFoundError: No module named 'no_torch'"),
        ("import os; os.abort()", "torch cannot be imported: exit code -6"),
    ],
)
def test_a_missing_or_crashing_torch_is_a_fault(program, detail):
    finding = examine_accelerators(command=[sys.executable, "-c", program])
    assert (finding.ok, finding.detail) == (False, detail)
    assert "turnsmith[train]" in finding.remedy


@pytest.mark.slow
def test_the_installed_torch_is_described():
    import torch

    assert f"torch {torch.__version__}" in examine_accelerators().detail
