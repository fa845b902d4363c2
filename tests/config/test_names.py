"""Names and import paths in a configuration: what is found, and the one sentence where nothing is."""

import sys

import pytest

from turnsmith.config.names import BUILT_IN, check_name, load_by_name
from turnsmith.errors import UsageError


@pytest.fixture
def write_module(working_directory):
    """Writes a module into the working directory."""

    def write(name, text):
        (working_directory / f"{name}.py").write_text(text)

    return write


def test_an_object_is_found_by_its_import_path():
    assert load_by_name("engine", "turnsmith.errors:UsageError") is UsageError


def test_a_module_of_the_working_directory_is_found(write_module):
    write_module("plugin_of_mine", "answer = 42\n")
    assert load_by_name("engine", "plugin_of_mine:answer") == 42


def test_an_installed_module_goes_before_one_of_the_working_directory(write_module):
    write_module("packaging", "version = 'mine'\n")
    assert load_by_name("engine", "packaging:__name__") == "packaging"
    assert load_by_name("engine", "packaging.version:Version").__module__ == "packaging.version"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no_such_package:x", "no module no_such_package: install it"),
        ("turnsmith.nothing:x", "no module turnsmith.nothing"),
        ("turnsmith.errors.deeper:x", "no module turnsmith.errors.deeper"),
        ("turnsmith.errors:x", "turnsmith.errors has no 'x'"),
        (
            "turnsmith.errors",
            f"engine 'turnsmith.errors': give {', '.join(BUILT_IN['engine'])}",
        ),
        ("../x.py:y", "no engine"),
        (":", "no engine"),
    ],
)
def test_what_is_not_there_is_one_sentence(path, sentence):
    with pytest.raises(UsageError) as caught:
        load_by_name("engine", path)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import no_such_package\n", "ModuleNotFoundError"),
        ("(", "Syntax"),
    ],
)
def test_a_module_that_fails_says_how_and_how_to_see_where(write_module, text, fault):
    write_module("broken_plugin", text)
    with pytest.raises(UsageError, match=r"broken_plugin .*python -c 'import broken_plugin'") as caught:
        load_by_name("engine", "broken_plugin:x")
    assert fault in str(caught.value)


def test_a_module_that_lacks_a_package_of_an_extra_names_the_extra(write_module, monkeypatch):
    write_module("lacking_plugin", "import pyarrow\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"lacking_plugin .*pyarrow.*turnsmith\[data\]"):
        load_by_name("engine", "lacking_plugin:x")


def test_an_unknown_name_names_the_known_ones(monkeypatch):
    monkeypatch.setitem(BUILT_IN, "algorithm", {"first": "a:b", "second": "c:d"})
    with pytest.raises(ValueError, match="algorithm 'frist': give first, second"):
        check_name("algorithm", "frist")
    with pytest.raises(UsageError, match="algorithm 'frist': give first, second"):
        load_by_name("algorithm", "frist")


@pytest.mark.parametrize("kind", sorted(BUILT_IN.keys() - {"tracker"}))
def test_every_built_in_name_leads_somewhere(kind):
    """Trackers need packages of their own: `test_services` has them."""
    assert all(load_by_name(kind, name) is not None for name in BUILT_IN[kind])
