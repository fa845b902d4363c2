"""Lookup of names and import paths, and the errors of wrong ones."""

import sys

import pytest

from turnsmith.config import Section
from turnsmith.config.names import NameTable
from turnsmith.errors import UsageError

TABLE = NameTable("engine", {"fast": "turnsmith.errors:EngineError", "broken": "turnsmith.errors:Nothing"})


@pytest.fixture
def write_module(working_directory):
    """Return a function that writes a module into the working directory."""

    def write(name, text):
        (working_directory / f"{name}.py").write_text(text)

    return write


def test_an_object_is_found_by_its_import_path():
    assert TABLE.load("turnsmith.errors:UsageError") is UsageError


def test_a_module_in_the_working_directory_is_found(write_module):
    write_module("plugin_of_mine", "answer = 42\n")
    assert TABLE.load("plugin_of_mine:answer") == 42


def test_an_installed_module_has_priority_over_one_in_the_working_directory(write_module):
    write_module("packaging", "version = 'mine'\n")
    assert TABLE.load("packaging:__name__") == "packaging"
    assert TABLE.load("packaging.version:Version").__module__ == "packaging.version"


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("no_such_package:x", "no module no_such_package: install it"),
        ("turnsmith.nothing:x", "no module turnsmith.nothing"),
        ("turnsmith.errors.deeper:x", "no module turnsmith.errors.deeper"),
        ("turnsmith.errors:x", "turnsmith.errors has no 'x'"),
        (
            "turnsmith.errors",
            "engine 'turnsmith.errors': give fast, broken",
        ),
        ("../x.py:y", "no engine"),
        (":", "no engine"),
    ],
)
def test_missing_names_are_reported_in_one_sentence(path, sentence):
    with pytest.raises(UsageError) as caught:
        TABLE.load(path)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import no_such_package\n", "ModuleNotFoundError"),
        ("(", "Syntax"),
    ],
)
def test_a_failing_module_is_reported_with_its_error_and_a_command_to_debug_it(write_module, text, fault):
    write_module("broken_plugin", text)
    with pytest.raises(UsageError, match=r"broken_plugin .*python -c 'import broken_plugin'") as caught:
        TABLE.load("broken_plugin:x")
    assert fault in str(caught.value)


def test_a_module_without_its_package_is_reported_with_the_missing_extra(write_module, monkeypatch):
    write_module("lacking_plugin", "import pyarrow\n")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"lacking_plugin .*pyarrow.*turnsmith\[data\]"):
        TABLE.load("lacking_plugin:x")


def test_a_short_name_loads_its_import_path():
    assert TABLE.load("fast") is TABLE.load("turnsmith.errors:EngineError")
    with pytest.raises(UsageError, match="has no 'Nothing'"):
        TABLE.load("broken")


def test_an_unknown_name_is_reported_with_the_known_names():
    with pytest.raises(UsageError, match="engine 'fats': give fast, broken"):
        TABLE.check("fats")


def test_an_instance_of_another_class_is_refused():
    with pytest.raises(UsageError, match=r"engine fast is a type: give a .*NameTable"):
        TABLE.load_instance("fast", NameTable)


class Options(Section):
    """Options of one entry."""

    size: int


def open_one(setup, options: Options):
    return setup, options.size


def open_unclear(setup, options):
    return setup, options


OPENERS = NameTable("engine", {name: f"{__name__}:{name}" for name in ("open_one", "open_unclear", "SIZE")})
SIZE = 3


def test_an_entry_gets_its_options():
    assert OPENERS.bind("open_one", {"size": 3}, "engine.options")("setup") == ("setup", 3)
    assert OPENERS.bind("open_one", {"size": 3}, "engine.options").func is open_one


@pytest.mark.parametrize("annotation", ["Options", "config.Section"])
def test_an_entry_with_annotations_as_text_gets_its_options(write_module, annotation):
    lines = (
        "from __future__ import annotations",
        "from turnsmith import config",
        "class Options(config.Section): pass",
        f"def open_it(setup: OnlyForTypeCheckers, options: {annotation}): return type(options)",
    )
    name = f"postponed_{annotation.lower().replace('.', '_')}"
    write_module(name, "\n".join(lines))
    assert issubclass(OPENERS.bind(f"{name}:open_it", {}, "engine.options")("setup"), Section)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("open_one", {}, "engine.options.size: Field required"),
        ("open_one", {"sise": 3}, "engine.options.sise is unknown to open_one: its options are size"),
        ("open_unclear", {}, "engine open_unclear: annotate `options`"),
        ("SIZE", {}, "engine SIZE is a int: give a function"),
    ],
)
def test_wrong_options_are_refused(name, options, message):
    with pytest.raises(UsageError, match=message):
        OPENERS.bind(name, options, "engine.options")
