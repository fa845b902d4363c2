"""Every entry of every table of names is there, of its type, and callable as its users call it."""

import importlib
from pathlib import Path

import pytest

import turnsmith
from support.pages.table_entries import INSTANCES, PARAMETERS, assert_fits
from turnsmith.config import SandboxConfig
from turnsmith.config.names import NameTable
from turnsmith.errors import UsageError
from turnsmith.sandboxes.names import load_provider


def find_tables():
    """Tables of all modules that are called `names`."""
    source = Path(turnsmith.__file__).parent
    files = sorted(source.rglob("names.py"))
    modules = [
        importlib.import_module(".".join(file.relative_to(source.parent).with_suffix("").parts)) for file in files
    ]
    return [table for module in modules for table in vars(module).values() if isinstance(table, NameTable)]


TABLES = find_tables()


def test_every_kind_of_table_is_known_here():
    assert sorted(table.kind for table in TABLES) == sorted([*INSTANCES, *PARAMETERS])


@pytest.mark.parametrize(
    ("table", "name"),
    [pytest.param(table, name, id=f"{table.kind}-{name}") for table in TABLES for name in table.paths],
)
def test_an_entry_is_there_and_called_as_agreed(table, name):
    try:
        found = table.load(name)
    except UsageError as error:
        if "pip install" in str(error):
            pytest.skip(str(error))
        raise
    assert_fits(found, table.kind)
    if table.kind in INSTANCES:
        assert getattr(found, "name", name) == name


def test_a_provider_says_what_it_takes_before_it_is_opened():
    [kinds] = [table.paths for table in TABLES if table.kind == "sandbox kind"]
    takes = {kind: load_provider(SandboxConfig(kind=kind)) for kind in kinds}
    assert [kind for kind, provider in takes.items() if provider.takes_images] == ["podman"]
    assert [kind for kind, provider in takes.items() if provider.takes_environments] == ["local"]
