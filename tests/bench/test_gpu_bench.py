"""Tests of `bench/gpu.py` on a CPU with tiny shapes."""

import importlib
import re
import runpy
from pathlib import Path

import pytest
import torch

GPU = Path(__file__).parents[2] / "bench/gpu.py"


def test_the_gpu_bench_runs_on_a_cpu_and_sampler_and_trainer_agree_on_log_probs(monkeypatch, capsys):
    arguments = ["--tiny", "--device", "cpu", "--episodes", "16", "--rounds", "1"]
    monkeypatch.setattr("sys.argv", [str(GPU), *arguments])
    monkeypatch.syspath_prepend(str(GPU.parent))
    runpy.run_path(str(GPU), run_name="__main__")
    figures = dict(re.findall(r"^  (\S.*?)  +(\S+)$", capsys.readouterr().out, re.MULTILINE))
    assert float(figures["log-prob gap, mean"]) < 0.02
    assert {float(figures[name]) > 0 for name in figures} == {True}
    assert {"generated tokens/s", "trained tokens/s", "peak memory, GiB", "tokens/s"} < set(figures)


@pytest.fixture
def gpu_kernels(monkeypatch):
    monkeypatch.syspath_prepend(str(GPU.parent))
    module = importlib.import_module("gpu_kernels")
    monkeypatch.setattr(module, "LENGTHS", [1, 7, 70])
    return module


def test_the_check_of_kernels_passes_on_a_cpu(gpu_kernels, capsys):
    assert gpu_kernels.check_kernels(torch.device("cpu"))
    assert "cached keys, as chosen" in capsys.readouterr().out


def test_the_check_of_kernels_finds_a_fault(gpu_kernels, monkeypatch):
    attend = gpu_kernels.PackedLayout.attend
    monkeypatch.setattr(gpu_kernels.PackedLayout, "attend", lambda *arguments: attend(*arguments) * 1.1)
    assert not gpu_kernels.check_kernels(torch.device("cpu"))


def test_the_bench_of_updates_runs_on_a_cpu_with_all_features_for_memory(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["gpu_updates.py", "--tiny", "--device", "cpu"])
    monkeypatch.syspath_prepend(str(GPU.parent))
    runpy.run_path(str(GPU.with_name("gpu_updates.py")), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert sum("256 tokens" in line and float(line.split()[-2]) > 0 for line in lines) == 4
    assert "ratio" in lines[-1]
