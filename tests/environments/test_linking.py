"""Plain installation linked to the tree: modules are imported from the tree, only metadata stays installed."""

import json
import subprocess
import sys

import pytest

from turnsmith.environments.discovery import find_requirements
from turnsmith.environments.equipping import LINKING, EnvironmentOptions, list_recipes

MODULES = ["shop/__init__.py", "shop/prices.py", "shop/_fast.so"]


@pytest.fixture
def python(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True)
    return tmp_path / "env/bin/python"


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    for name in MODULES[:2]:
        (folder / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "src" / name).write_text("PLACE = __file__\n")
    return folder


@pytest.fixture
def packages(python):
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    place = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return type(python)(place)


@pytest.fixture
def install(packages, tree):
    """Create the files that an installer leaves for a project."""

    def write(modules):
        metadata = packages / "shop-1.0.dist-info"
        metadata.mkdir()
        record = [*modules, "shop-1.0.dist-info/METADATA", "shop-1.0.dist-info/RECORD", "../../../bin/shop"]
        for name in (*modules, "shop/__pycache__/prices.pyc"):
            (packages / name).parent.mkdir(parents=True, exist_ok=True)
            (packages / name).write_text("stale = True\n")
        (metadata / "METADATA").write_text("Name: shop\nVersion: 1.0\n")
        (metadata / "direct_url.json").write_text(json.dumps({"url": tree.as_uri(), "dir_info": {}}))
        (metadata / "RECORD").write_text("".join(f"{name},,\n" for name in record))

    return write


def link(python, tree):
    return subprocess.run([python, "-c", LINKING], cwd=tree, capture_output=True, text=True, check=False)


def test_the_tree_is_imported_and_compiled_modules_move_there(python, tree, packages, install):
    install(MODULES)
    assert link(python, tree).returncode == 0
    code = "import shop.prices as m, importlib.metadata as d; print(m.PLACE, d.version('shop'))"
    seen = subprocess.run([python, "-c", code], cwd="/", capture_output=True, text=True, check=True).stdout.split()
    assert seen == [str(tree / "src/shop/prices.py"), "1.0"]
    assert (tree / "src/shop/_fast.so").exists()
    assert not (packages / "shop").exists()
    record = (packages / "shop-1.0.dist-info/RECORD").read_text()
    assert "shop/" not in record and "bin/shop" in record


@pytest.mark.parametrize(
    ("modules", "cause"), [([*MODULES, "till/__init__.py"], "till is installed"), (None, "no package was installed")]
)
def test_what_does_not_lie_in_the_tree_is_no_silent_copy(python, tree, install, modules, cause):
    if modules:
        install(modules)
    result = link(python, tree)
    assert result.returncode == 1
    assert cause in result.stderr


def test_a_project_without_a_script_has_a_plain_installation_before_it_is_left_alone(python):
    required = find_requirements({"pyproject.toml": b"[build-system]\nrequires = []\n", "requirements.txt": b"x\n"})
    commands = [recipe.commands for recipe in list_recipes(required, "2023-01-02", "1.0", EnvironmentOptions())]
    is_plain = ["linking.py" in each[-1] for each in commands]
    has_all = [any("requirements.txt" in command for command in each) for each in commands]
    assert is_plain == [False, False, True, True, False, True]
    assert has_all == [True, True, True, True, False, False]
