"""Test of `bench/iteration.py` with tiny episodes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ITERATION = Path(__file__).parents[2] / "bench/iteration.py"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_losses_and_gradients_agree_with_those_of_trl_and_the_table_compares_both():
    sizes = ["--prompts", "1", "--turns", "2", "--sampled", "4", "--observed", "12", "--rounds", "1", "--threads", "1"]
    done = subprocess.run([sys.executable, str(ITERATION), *sizes], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    differences = re.findall(r"(?:relative difference|of the gradients) (\S+?),? ", done.stdout)
    assert len(differences) == 2 and max(map(float, differences)) < 1e-4
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()[-2:]}
    assert rows.keys() == {"TRL", "turnsmith"}
    assert {float(row[1]) > 0 for row in rows.values()} == {True}
