import re
from pathlib import Path

import pytest

from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.parsing import parse_turn
from turnsmith.errors import UsageError

STATS = '''"""Small statistics."""


def mean(values):
    return sum(values) / len(values)


def spread(values):
    return max(values) + min(values)
'''
PROJECTS = {
    "paper": {"stats.py": STATS, "test_stats.py": "from stats import mean\n\nassert mean([1, 3]) == 2\n"},
    "brief": {"shop.py": "def total(prices):\n    return len(prices)\n"},
    "bash": {"shop.py": "def total(prices):\n    return len(prices)\n"},
}
SCAFFOLDS = {
    "paper": load_scaffold("paper"),
    "brief": load_scaffold("paper", prompts="brief"),
    "bash": load_scaffold("bash"),
}
every = pytest.mark.parametrize("name", SCAFFOLDS)


def turns_of(demonstration):
    """Return (text, observation) of each turn of a demonstration."""
    parts = re.split(r"\[(?:YOU|ENVIRONMENT)\]\n", demonstration.replace("</demonstration>", ""))[2:]
    return list(zip(parts[::2], [*parts[1::2], ""], strict=False))


@every
async def test_the_demonstration_equals_the_real_tool_output(name, play_with, project):
    for file, text in PROJECTS[name].items():
        (project / file).write_text(text)
    scaffold = SCAFFOLDS[name]
    demonstration = scaffold.system(demonstration=True).removeprefix(scaffold.system())
    play = play_with(scaffold, window_lines=100)
    for text, observation in turns_of(demonstration):
        command = parse_turn(text)
        assert isinstance(command, str), text
        answer = f"{await play(command)}\n{scaffold.prompt_line(play.session)}\n".replace(str(project), "/project")
        assert play.result.submitted or answer == observation
    assert play.result.submitted
    assert sorted(path.name for path in project.iterdir()) == sorted(PROJECTS[name])


@every
def test_the_system_message_names_every_tool(name):
    system = SCAFFOLDS[name].system()
    assert all(re.search(rf"\b{tool.name}\b", system) for tool in SCAFFOLDS[name].tools)
    assert "```command\n" in system


def test_the_papers_system_message_has_its_sections():
    system = SCAFFOLDS["paper"].system()
    headings = re.findall(r"^# (.+)$", system, re.MULTILINE)
    assert headings == ["SPECIAL TOOLS", "ENVIRONMENT RESPONSE", "YOUR RESPONSE", "HANDLING TESTS", "USEFUL ADVICE"]
    assert system.count("<response_example>") == 2
    assert all(tool.usage in system for tool in SCAFFOLDS["paper"].tools)


@every
def test_the_first_message_has_the_unchanged_issue_and_ends_with_the_prompt(name):
    message = SCAFFOLDS[name].issue("It {{ breaks }} <b>&\n", "/testbed")
    assert message.startswith("# ISSUE")
    assert "It {{ breaks }} <b>&\n" in message
    assert message.endswith(
        "/testbed $" if name == "bash" else "(Current directory: /testbed, current file: none) bash-$"
    )


def test_the_brief_prompts_are_brief():
    prompts = SCAFFOLDS["brief"]
    assert len(prompts.system().split()) <= 60
    assert len(prompts.system(demonstration=True).split()) - len(prompts.system().split()) <= 120


def test_prompts_can_come_from_a_folder(tmp_path):
    for part in ("system", "issue", "demonstration"):
        (tmp_path / f"{part}.jinja").write_text(f"my {part}")
    prompts = load_scaffold(prompts=str(tmp_path))
    assert prompts.system(demonstration=True) == "my system\n\nmy demonstration"
    assert prompts.issue("x", "/") == "my issue"


def test_unknown_prompts_name_the_choices(tmp_path):
    with pytest.raises(UsageError, match=r"'papre' .*bash, brief, paper"):
        load_scaffold(prompts="papre")
    with pytest.raises(UsageError, match=r"system, issue and demonstration\.jinja"):
        load_scaffold(prompts=str(tmp_path))


def test_a_broken_template_is_a_usage_error(tmp_path):
    Path(tmp_path / "system.jinja").write_text("{% if %}")
    with pytest.raises(UsageError, match="cannot use"):
        load_scaffold(prompts=str(tmp_path))


@pytest.mark.parametrize("text", [b"{{ nobody_knows }}", b"\xff"])
def test_a_template_that_cannot_be_filled_in_is_found_when_it_is_loaded(tmp_path, text):
    for part in ("system", "issue", "demonstration"):
        (tmp_path / f"{part}.jinja").write_bytes(b"{{ cwd }}" if part == "issue" else b"x")
    load_scaffold(prompts=str(tmp_path))
    (tmp_path / "demonstration.jinja").write_bytes(text)
    with pytest.raises(UsageError, match="cannot use"):
        load_scaffold(prompts=str(tmp_path))
