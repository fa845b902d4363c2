"""Tests of `bench/gpu.py` on a CPU with tiny shapes."""

import re
import runpy
from pathlib import Path

GPU = Path(__file__).parents[2] / "bench/gpu.py"


def test_the_gpu_bench_runs_on_a_cpu_and_sampler_and_trainer_agree_on_log_probs(monkeypatch, capsys):
    arguments = ["--tiny", "--device", "cpu", "--episodes", "16", "--rounds", "1"]
    monkeypatch.setattr("sys.argv", [str(GPU), *arguments])
    runpy.run_path(str(GPU), run_name="__main__")
    figures = dict(re.findall(r"^  (\S.*?)  +(\S+)$", capsys.readouterr().out, re.MULTILINE))
    assert float(figures["log-prob gap, mean"]) < 0.02
    assert {float(figures[name]) > 0 for name in figures} == {True}
    assert {"generated tokens/s", "trained tokens/s", "peak memory, GiB", "tokens/s"} < set(figures)
