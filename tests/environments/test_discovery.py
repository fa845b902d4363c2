"""Test requirements of a repository, in all supported declarations."""

import pytest

from turnsmith.environments.building import Recipe
from turnsmith.environments.discovery import find_requirements
from turnsmith.environments.equipping import EnvironmentOptions, end_of_quarter, list_commands, list_recipes
from turnsmith.errors import UsageError


def needs_of(**files):
    names = {
        "pyproject": "pyproject.toml",
        "script": "setup.py",
        "settings": "setup.cfg",
        "tox": "tox.ini",
        "lock": "uv.lock",
    }
    return find_requirements({names.get(name, name): text.encode() for name, text in files.items()})


EXTRAS = '[project]\nname = "a"\n[project.optional-dependencies]\ntest = ["x"]\ndocs = ["y"]\nDev = ["z"]\n'
GROUPS = (
    '[project]\nname = "a"\n[dependency-groups]\ntest = ["x>1", {include-group = "base"}]\nbase = ["w"]\ndocs = ["y"]\n'
)
POETRY = '[tool.poetry.group.dev.dependencies]\nx = "^1.2"\n[tool.poetry.group.docs.dependencies]\ny = "*"\n'
HATCH = '[tool.hatch.envs.test]\ndependencies = ["x"]\n[tool.hatch.envs.docs]\ndependencies = ["y"]\n'
TOX = "[testenv]\ndeps =\n    x>=2  # why\n    -rrequirements.txt\n    py38: old\n    {toxinidir}/y\n"


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"pyproject": GROUPS}, ("x>1", "w", "pytest")),
        ({"pyproject": POETRY}, ("x>=1.2", "pytest")),
        ({"pyproject": HATCH}, ("x", "pytest")),
        ({"tox": TOX}, ("x>=2", "pytest")),
        ({}, ("pytest",)),
    ],
)
def test_requirements_of_groups_and_tools(files, wanted):
    assert needs_of(**files).requirements == wanted


def test_extras_for_who_tests():
    assert needs_of(pyproject=EXTRAS).extras == ("test",)
    assert needs_of(pyproject=EXTRAS.replace("test", "fast")).extras == ("Dev",)
    assert needs_of(settings="[options.extras_require]\ntests = x\nlint = y\n", script="").extras == ("tests",)
    assert needs_of(script='setup(extras_require={"dev": ["x"], "docs": ["y"]})').extras == ("dev",)


CODECS = """[project]
name = "codecs-of-all"
[project.optional-dependencies]
all = ["orjson", "pymongo", "PyYAML", "ujson"]
bson = ["pymongo>=4"]
fast = ["orjson; implementation_name == 'cpython'"]
pyyaml = ["PyYAML"]
ujson = ["ujson"]
json = ["simplejson"]
self = ["codecs-of-all[all]"]
[dependency-groups]
test = ["x"]
time = ["python-dateutil", {include-group = "more"}]
more = ["pytz"]
"""


@pytest.mark.parametrize(
    ("imports", "extras", "requirements"),
    [
        ("import os, orjson", ("fast",), ("x", "pytest")),
        ("    from bson import ObjectId\nimport yaml.nodes as y", ("bson", "pyyaml"), ("x", "pytest")),
        ('ujson = pytest.importorskip("ujson")', ("ujson",), ("x", "pytest")),
        ("import json, codecs_of_all\nfrom .all import b", (), ("x", "pytest")),
        ("from dateutil import tz", (), ("x", "python-dateutil", "pytz", "pytest")),
    ],
)
def test_extras_and_groups_that_tests_import(imports, extras, requirements):
    required = needs_of(pyproject=CODECS, **{"tests/preconf/test_all.py": imports, "src/a.py": "import ujson, bson"})
    assert required.extras == extras
    assert required.requirements == requirements


def test_files_that_contradict_the_rest_are_tried_without_it():
    required = needs_of(tox="[testenv]\ndeps = x<1\n", **{"requirements-test.txt": "x>1\n", "pyproject": "[project]\n"})
    commands = [
        recipe.commands[0]
        for recipe in list_recipes(required, "2024-01-02", "1", EnvironmentOptions(requirements=("x==2",)))
    ]
    assert "x<1 pytest x==2" in commands[0].replace("'", "")
    assert any("-r requirements-test.txt pytest" in command for command in commands)


def test_an_extra_that_cannot_be_installed_is_left_out_in_the_end():
    required = needs_of(pyproject=CODECS, **{"tests/test_all.py": "import orjson"})
    commands = [recipe.commands[0] for recipe in list_recipes(required, "2024-01-02", "1", EnvironmentOptions())]
    assert "-e '.[fast]'" in commands[0]
    assert any(command.endswith("-e .") for command in commands)


@pytest.mark.parametrize(
    ("path", "is_wanted"),
    [
        ("requirements.txt", True),
        ("requirements-dev.txt", True),
        ("requirements/test.txt", True),
        ("test-requirements.txt", True),
        ("requirements/docs.txt", False),
        ("docs/requirements.txt", False),
        ("requirements-lint.txt", False),
        ("src/deep/requirements.txt", False),
        ("notes.txt", False),
    ],
)
def test_files_of_requirements(path, is_wanted):
    assert (needs_of(**{path: "x\n"}).files == (path,)) is is_wanted


def test_files_for_tests_go_before_those_for_development():
    files = ["requirements.txt", "requirements/dev.txt", "requirements/tests.in", "requirements/tests.txt"]
    assert needs_of(**dict.fromkeys(files, "x\n")).files == ("requirements.txt", "requirements/tests.txt")


def test_a_ring_of_groups_ends():
    ring = '[dependency-groups]\ntest = ["x", {include-group = "dev"}]\ndev = [{include-group = "test"}]\n'
    assert "x" in needs_of(pyproject=ring).requirements


def test_a_lock_file_pins_what_it_locks_once():
    lock = "".join(
        f'[[package]]\nname = "{name}"\nversion = "{version}"\n'
        for name, version in [("A_b", "1.0"), ("c", "2"), ("c", "3")]
    )
    assert needs_of(lock=lock).pins == ("a-b==1.0",)


@pytest.mark.parametrize(
    ("files", "bounds"),
    [
        ({"pyproject": '[project]\nrequires-python = ">=3.9"\n'}, ">=3.9"),
        ({"pyproject": '[tool.poetry.dependencies]\npython = "^3.8"\n'}, ">=3.8"),
        ({"settings": "[options]\npython_requires = >=3.6\n"}, ">=3.6"),
        ({"script": "setup(python_requires='>=2.7, !=3.0.*')"}, ">=2.7, !=3.0.*"),
        ({}, ""),
    ],
)
def test_which_pythons_a_project_admits(files, bounds):
    assert needs_of(**files).requires_python == bounds


def test_what_installs_nothing_makes_no_other_environment():
    one = '[project]\nname = "a"\nversion = "1.0"\ndependencies = ["x"]\n[tool.ruff]\nline-length = 80\n'
    same = one.replace("1.0", "1.1").replace("80", "120")
    assert needs_of(pyproject=one).digests == needs_of(pyproject=same).digests
    assert needs_of(pyproject=one).digests != needs_of(pyproject=one.replace('"x"', '"y"')).digests


def test_what_is_compiled_makes_another_environment():
    one, other = (needs_of(**{"a.c": text, "setup.py": ""}) for text in ("int a;", "int b;"))
    assert one.digests != other.digests


def test_a_damaged_file_is_named():
    with pytest.raises(UsageError, match=r"pyproject\.toml"):
        needs_of(pyproject="[project\n")
    with pytest.raises(UsageError, match="requirements"):
        needs_of(pyproject="project = 1\n")


def test_commands_install_the_project_from_the_tree_and_nothing_of_a_later_day():
    required = needs_of(pyproject=EXTRAS, **{"requirements-dev.txt": "x\n"})
    (command,) = list_commands(required, "2020-07-01")
    assert "--exclude-newer 2020-07-01" in command
    assert "-e '.[test]'" in command
    assert "-r requirements-dev.txt" in command


@pytest.mark.parametrize(
    ("date", "end"), [("2020-05-03", "2020-07-01"), ("2020-12-31", "2021-01-01"), ("2021-01-01", "2021-04-01")]
)
def test_commits_of_a_quarter_share_their_packages(date, end):
    assert end_of_quarter(date) == end


def test_the_version_of_a_project_is_no_part_of_the_key():
    one, other = (Recipe("3.9.1", ("a",), {"f": "1"}, version) for version in ("1.0", "2.0"))
    assert one.key == other.key != Recipe("3.9.1", ("b",), {"f": "1"}).key


def test_options_default_to_no_commands():
    assert EnvironmentOptions(python="3.9").commands == ()
