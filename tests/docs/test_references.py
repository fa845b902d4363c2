"""References in pages and configuration files: files, links, anchors, commands, flags, keys and names in code exist."""

import importlib
import re
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import typer
from pydantic import BaseModel

from turnsmith.cli import make_app
from turnsmith.cli.running import LEARNING
from turnsmith.config import RunConfig

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("configs/*.toml")])
SOURCES = sorted(ROOT.glob("src/turnsmith/**/*.py"))
COMMANDS = typer.main.get_command(make_app())
TAKE_KEYS = {*LEARNING, "resume", "solve"}
"""Commands that accept configuration keys as flags."""

FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED = re.compile(r"(?<![\w/.~-])(?:docs|configs|bench|scripts|redteam|src/turnsmith)/[\w./-]*\w")
PAGE = re.compile(r"\bdocs/[\w-]+\.md(?:#[\w-]+)?")
COMMAND = re.compile(r"(?<![\w/.-])turnsmith ((?:(?:tasks|models) )?[a-z][a-z-]*)([^`#|&;)]*)")
FLAG = re.compile(r"(?<!\S)\[?(--?[a-zA-Z][\w.-]*)")
KEY = re.compile(r"(?<!\S)`?--([a-z_]+(?:\.\w+)+)(?![\w.-])")
SPAN = re.compile(r"`([^`\n]+)`")
NAME_OF_CODE = re.compile(r"[A-Z]\w*[a-z]\w*[A-Z]\w*|[A-Z]\w*_\w+")
ELSEWHERE = {"MADV_POPULATE_WRITE"}
"""Names of the kernel and of libraries that no file contains."""
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def name_page(page):
    return str(page.relative_to(ROOT))


every_page = pytest.mark.parametrize("page", PAGES, ids=name_page)
every_current_page = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=name_page
)


def read(page):
    """Return the text with continued lines joined."""
    return page.read_text(encoding="utf-8").replace("\\\n", " ")


def list_anchors(page):
    """Return the anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCE.sub("", read(page)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def has_target(page, link):
    """Return True if the link leads to an existing file, and to an existing heading if it names one."""
    path, _, anchor = link.partition("#")
    target = page.parent / path if path else page
    return target.exists() and (not anchor or anchor in list_anchors(target))


def test_the_index_links_every_page():
    pages = {page.name for page in ROOT.glob("docs/*.md")} - {"index.md"}
    assert pages <= set(LINK.findall((ROOT / "docs/index.md").read_text()))


@every_page
def test_every_link_leads_to_an_existing_file_and_heading(page):
    links = [link for link in LINK.findall(FENCE.sub("", read(page))) if not re.match(r"https?:", link)]
    assert [link for link in links if not has_target(page, link)] == []


@every_page
def test_every_named_repository_file_exists(page):
    names = {name for name in NAMED.findall(read(page)) if "NAME" not in name}
    assert [name for name in sorted(names) if not (ROOT / name).exists()] == []


def test_every_page_named_by_the_program_exists():
    found = {name for file in SOURCES for name in PAGE.findall(read(file))}
    assert found
    assert [name for name in sorted(found) if not has_target(ROOT / "README.md", name)] == []


def find_command(words):
    """Return the command that the words name, and the number of words that name it: `tasks mine PATH` → 2."""
    command, count = COMMANDS, 0
    while count < len(words) and words[count] in getattr(command, "commands", {}):
        command, count = command.commands[words[count]], count + 1
    return command, count


def list_faults(words, rest):
    """Return the commands and flags of a line that do not exist."""
    command, count = find_command(words)
    if count < len(words):
        return [" ".join(words)]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    keys = words[0] in TAKE_KEYS
    return [
        flag
        for flag in FLAG.findall(QUOTED.sub("TEXT", rest))
        if flag not in options and not (keys and is_key(flag[2:]))
    ]


def is_key(name):
    return name == "sandbox" or leads_somewhere(RunConfig, name.split("."))


def leads_somewhere(kind: Any, parts: list[str]) -> bool:
    """Return True if the type has a value at the end of the dotted key."""
    arguments = get_args(kind)
    if not parts:
        return True
    if get_origin(kind) in (Union, UnionType):
        return any(leads_somewhere(each, parts) for each in arguments if each is not NoneType)
    if get_origin(kind) is Annotated:
        return leads_somewhere(arguments[0], parts)
    if get_origin(kind) is list:
        return parts[0].isdigit() and leads_somewhere(arguments[0], parts[1:])
    if get_origin(kind) is dict:
        return leads_somewhere(arguments[1], parts[1:])
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        return kind is Any
    field = kind.model_fields.get(parts[0])
    return field is not None and leads_somewhere(field.annotation, parts[1:])


@every_page
def test_every_command_and_flag_exists(page):
    lines = (line for line in read(page).splitlines() for line in COMMAND.findall(line))
    assert [fault for words, rest in lines for fault in list_faults(words.split(), rest)] == []


@every_page
def test_every_dotted_flag_is_a_configuration_key(page):
    assert [key for key in KEY.findall(read(page)) if not is_key(key)] == []


def list_spans(page):
    """Return the code spans of a page, without those in code blocks."""
    return SPAN.findall(FENCE.sub("", read(page)))


def is_importable(dotted):
    """Return True if a dotted name below `turnsmith` names a module or an attribute."""
    parts = ["turnsmith", *dotted.removeprefix("turnsmith.").split(".")]
    for length in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for name in parts[length:]:
            value = getattr(value, name, None)
        return value is not None
    return False


@every_page
def test_every_named_module_file_exists(page):
    files = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("[!.]*/**/*.py")]
    names = {span for span in list_spans(page) if re.fullmatch(r"[\w./-]+/\w+\.py", span)}
    assert [name for name in sorted(names) if not any(file.endswith(f"/{name}") for file in files)] == []


@every_current_page
def test_every_dotted_name_is_a_key_or_importable(page):
    rooms = {path.stem for path in (ROOT / "src/turnsmith").iterdir()} | {"turnsmith"}
    spans = {span for span in list_spans(page) if re.fullmatch(r"[a-z_]+(\.\w+)+", span)}
    names = {span for span in spans if span.split(".")[0] in rooms and not span.endswith((".json", ".jsonl", ".py"))}
    assert [name for name in sorted(names) if not (is_key(name) or is_importable(name))] == []


@every_current_page
def test_every_class_and_constant_is_a_name_in_the_code(page):
    names = {span for span in list_spans(page) if NAME_OF_CODE.fullmatch(span)}
    files = [path for path in ROOT.glob("[!.]*/**/*.py") if names]
    known = {word for file in files for word in re.findall(r"\w+", file.read_text(encoding="utf-8"))}
    assert sorted(names - known - ELSEWHERE) == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("turnsmith tasks mine PATH --num 3", []),
        ("turnsmith tasks mint PATH", ["tasks mint"]),
        ("turnsmith show RUN --nope", ["--nope"]),
        ("turnsmith run FILE --stages.1.iterations 3 --seed 1 --stages.x 2 --sede 1", ["--stages.x", "--sede"]),
        ("turnsmith results RUN --seed 1", ["--seed"]),
        ("turnsmith solve PATH --tests 'python -m pytest' --nope", ["--nope"]),
    ],
)
def test_unknown_commands_and_flags_are_detected(line, faults):
    [(words, rest)] = COMMAND.findall(line)
    assert list_faults(words.split(), rest) == faults


def test_broken_links_are_detected():
    page = ROOT / "README.md"
    assert has_target(page, "docs/index.md#exit-codes") and has_target(page, "#limits")
    assert not has_target(page, "docs/index.md#exit-cods") and not has_target(page, "docs/none.md")
