"""The plans that docs/plan.md shows are those that the command prints."""

import importlib
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/plan.md").read_text()
QWEN = {
    "model_type": "qwen2", "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": False,
}  # fmt: skip
SMALLER = {"hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28}
SMALLEST = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
EXAMPLES = [
    ("paper-72b-stage2", "h200", QWEN),
    ("qwen-7b-8gpu", "h100", QWEN | SMALLER | {"num_key_value_heads": 4}),
    (
        "qwen-0.5b-1gpu",
        "h100",
        QWEN | SMALLEST | {"num_key_value_heads": 2, "vocab_size": 151936, "tie_word_embeddings": True},
    ),
]


@pytest.mark.parametrize(("name", "hardware", "model"), EXAMPLES)
def test_the_page_shows_what_the_command_prints(turnsmith, tmp_path, name, hardware, model):
    (tmp_path / "config.json").write_text(json.dumps(model))
    printed = turnsmith("plan", ROOT / f"configs/{name}.toml", "--hardware", hardware, "--model.path", tmp_path)
    shown = "\n".join(line.rstrip() for line in printed.stdout.splitlines())
    assert printed.exit_code == 0 and f"```\n{shown}\n```" in PAGE
    assert f"turnsmith plan configs/{name}.toml --hardware {hardware}" in PAGE


def test_the_page_shows_the_plans_that_were_compared_with_a_gpu_and_their_memory_is_near(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    bench = importlib.import_module("gpu_plan")
    rows = dict(re.findall(r"^\| ([^|]*(?:16k|8k|65k)[^|]*) \| (.*) \|$", PAGE, re.MULTILINE))
    assert rows.keys() == bench.CASES.keys()
    for name, case in bench.CASES.items():
        planned = bench.scale(bench.predict(case, bench.make_config(case, tmp_path), bench.find_hardware("h100")))
        cells = [cell.replace(",", " ").split() for cell in re.sub(r"(?<=\d),(?=\d)", "", rows[name]).split("|")]
        assert [float(cell[0]) for cell in cells] == [round(planned[0], 1), round(planned[1]), round(planned[2], 1)]
        assert abs(float(cells[0][0]) / float(cells[0][1]) - 1) < 0.15
