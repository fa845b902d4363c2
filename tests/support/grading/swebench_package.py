"""The package swebench for tests: installed, or fetched without all that it requires."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

WHEELS = ["swebench==5.0.2", "unidiff"]


def find_package(folder):
    """Find the folder that holds swebench; its two wheels are fetched where it is not installed. Skips where neither works."""
    if found := importlib.util.find_spec("swebench"):
        return Path(found.origin).parents[1]
    fetch = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, *WHEELS]
    if subprocess.run(fetch, capture_output=True).returncode:
        pytest.skip("swebench is not installed and could not be fetched")
    return folder
