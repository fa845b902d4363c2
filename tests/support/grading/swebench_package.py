"""Package swebench for tests, installed or downloaded without most of its requirements."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

WHEELS = ["swebench==5.0.2", "unidiff"]


def find_package(folder):
    """Return the folder that contains swebench; download two wheels if it is not installed. Skips if both fail."""
    if found := importlib.util.find_spec("swebench"):
        return Path(found.origin).parents[1]
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *WHEELS]
    if subprocess.run(fetch, capture_output=True).returncode:
        pytest.skip("swebench is not installed and could not be fetched")
    return folder
