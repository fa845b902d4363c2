"""The plans that docs/plan.md shows are those that the command prints."""

import json
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
