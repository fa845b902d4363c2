"""Tests of `bench/update.py` with tiny shapes."""

import re
import runpy
from pathlib import Path

import pytest

UPDATE = Path(__file__).parents[2] / "bench/update.py"


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # of TRL and its dependencies
def test_both_sides_of_each_row_have_equal_gradients(monkeypatch, capsys):
    pytest.importorskip("trl")
    monkeypatch.syspath_prepend(UPDATE.parent)
    monkeypatch.setattr("sys.argv", [str(UPDATE), "--tiny", "--rounds", "1"])
    with pytest.raises(SystemExit, match="0"):
        runpy.run_path(str(UPDATE), run_name="__main__")
    output = capsys.readouterr().out
    rows = re.findall(r"^(\S.*?) {2,}([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+) +(\S+)", output, re.MULTILINE)
    assert [name.split(",")[0] for name, *_ in rows] == ["masked", "masked", "turns", "prefix of 50%", "prefix of 80%"]
    assert all(float(difference) < 1e-5 for *_, difference in rows)
    assert all(float(base) > 0 and float(ours) > 0 and float(predicted) > 1 for _, base, ours, _, predicted, *_ in rows)
    [[ours, theirs]] = re.findall(r"memory for logits: ([\d.]+) MiB; TRL ([\d.]+) MiB", output)
    assert 0 < float(ours) < float(theirs)
