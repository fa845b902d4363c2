"""Interpreter whose vLLM is the stand-in of `support/vllm_stand_in`."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


def write_vllm_python(folder: Path) -> str:
    """Write a script that starts Python with the stand-in; return its path."""
    script = folder / "python"
    script.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{TESTS / "support/vllm_stand_in"}:{TESTS}" exec {sys.executable} "$@"\n'
    )
    script.chmod(0o755)
    return str(script)
