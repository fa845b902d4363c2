"""Model directories in the format of transformers, written from GGUF files."""

import json
from pathlib import Path
from typing import Any

from safetensors.numpy import save_file

from turnsmith.runs.temporary import temporary_folder
from turnsmith.training.published.gguf_file import GgufFile
from turnsmith.training.published.gguf_tokenizer import describe_tokenizer, make_tokenizer


def convert(path: Path, out: Path) -> None:
    """Convert a GGUF file into the new model directory `out`, with weights in float32. Raises UsageError.

    The directory appears when it is complete.
    """
    file = GgufFile(path)
    out.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(f".{out.name}", out.parent) as temporary:
        folder = temporary / "model"
        folder.mkdir()
        write_parts(file, folder)
        folder.rename(out)


def write_parts(file: GgufFile, folder: Path) -> None:
    """Write configuration, tokenizer and weights of a GGUF file."""
    configuration = file.read_configuration()
    ends = {name: configuration[name] for name in ("bos_token_id", "eos_token_id")}
    write_json(folder / "tokenizer_config.json", describe_tokenizer(file))
    make_tokenizer(file).save(str(folder / "tokenizer.json"))
    write_json(folder / "config.json", configuration)
    write_json(folder / "generation_config.json", ends)
    save_file(dict(file.read_tensors()), folder / "model.safetensors", metadata={"format": "pt"})


def write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=2) + "\n", "utf-8")
