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


@pytest.fixture
def gpu_updates(monkeypatch):
    monkeypatch.syspath_prepend(str(GPU.parent))
    return importlib.import_module("gpu_updates")


def test_the_bench_of_updates_runs_on_a_cpu_with_all_features_for_memory(gpu_updates, capsys):
    list(gpu_updates.run(gpu_updates.TINY, torch.device("cpu")))
    lines = capsys.readouterr().out.splitlines()
    assert sum("256 tokens" in line and float(line.split()[-2]) > 0 for line in lines) == 4
    assert {float(line.split()[-1]) > 0 for line in lines[-2:]} == {True}


def test_each_missed_figure_of_a_step_is_reported(gpu_updates):
    required = gpu_updates.Required(mfu=0.35, speed=2, peak=132)
    own, plain = {"mfu": 0.36, "seconds": 1.0, "peak": 131.0}, {"seconds": 2.1}
    assert list(gpu_updates.find_misses("4B", required, own, plain)) == []
    worse = {"mfu": 0.34, "seconds": 1.1, "peak": 133.0}
    words = ("MFU", "as fast as", "peak")
    misses = list(gpu_updates.find_misses("4B", required, worse, plain))
    assert all(word in miss for word, miss in zip(words, misses, strict=True))
    assert list(gpu_updates.find_misses("4B", required, None, plain)) == ["4B does not fit"]


@pytest.fixture
def gpu_plan(monkeypatch):
    monkeypatch.syspath_prepend(str(GPU.parent))
    return importlib.import_module("gpu_plan")


def test_the_bench_of_plans_measures_each_case_on_a_cpu(gpu_plan, capsys):
    assert list(gpu_plan.run(gpu_plan.TINY, gpu_plan.find_hardware("h100"), torch.device("cpu"))) == []
    [line] = [line for line in capsys.readouterr().out.splitlines() if line.startswith("tiny ")]
    predicted_memory, _, _, _, sampled, _, _, step, _ = line.split()[1:]
    assert min(float(predicted_memory), float(sampled), float(step)) > 0


def test_a_memory_outside_the_limit_is_a_miss(gpu_plan, monkeypatch):
    async def measure(case, config, device):
        return gpu_plan.Figures(2 * gpu_plan.predict(case, config, gpu_plan.find_hardware("h100")).memory, 1.0, 1.0)

    monkeypatch.setattr(gpu_plan, "measure", measure)
    [miss] = gpu_plan.run(gpu_plan.TINY, gpu_plan.find_hardware("h100"), torch.device("cpu"))
    assert miss == "tiny: the memory is not within 15%"
