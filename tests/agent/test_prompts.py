import re
from pathlib import Path

import pytest

from turnsmith.agent.prompts import load_prompts
from turnsmith.agent.tools.toolbox import TOOLS
from turnsmith.chat.parsing import Action, parse_turn
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
}


def turns_of(demonstration):
    """(text, observation) of each turn of a demonstration."""
    parts = re.split(r"\[(?:YOU|ENVIRONMENT)\]\n", demonstration.replace("</demonstration>", ""))[2:]
    return list(zip(parts[::2], [*parts[1::2], ""], strict=False))


@pytest.mark.parametrize("name", ["paper", "brief"])
async def test_the_demonstration_is_what_the_tools_really_answer(name, play, project):
    for file, text in PROJECTS[name].items():
        (project / file).write_text(text)
    prompts = load_prompts(name)
    demonstration = prompts.system(demonstration=True).removeprefix(prompts.system())
    turns = turns_of(demonstration)
    play.kit = type(play.kit)(play.kit.sandbox, 100, 10.0)
    for text, observation in turns:
        action = parse_turn(text)
        assert isinstance(action, Action), text
        answer = f"{await play(action.command)}\n{play.workspace.prompt_line}\n".replace(str(project), "/project")
        assert play.reply.submitted or answer == observation
    assert play.reply.submitted
    assert sorted(path.name for path in project.iterdir()) == sorted(PROJECTS[name])


@pytest.mark.parametrize("name", ["paper", "brief"])
def test_the_system_message_names_every_tool(name):
    system = load_prompts(name).system()
    assert all(re.search(rf"\b{tool}\b", system) for tool in TOOLS)
    assert "```command\n" in system


def test_the_papers_system_message_has_its_sections():
    system = load_prompts("paper").system()
    headings = re.findall(r"^# (.+)$", system, re.MULTILINE)
    assert headings == ["SPECIAL TOOLS", "ENVIRONMENT RESPONSE", "YOUR RESPONSE", "HANDLING TESTS", "USEFUL ADVICE"]
    assert system.count("<response_example>") == 2
    assert all(tool.usage in system for tool in TOOLS.values())


@pytest.mark.parametrize("name", ["paper", "brief"])
def test_the_first_message_has_the_issue_as_it_is_and_ends_with_the_prompt(name):
    message = load_prompts(name).issue("It {{ breaks }} <b>&\n", "/testbed")
    assert message.startswith("# ISSUE DESCRIPTION\n")
    assert "It {{ breaks }} <b>&\n" in message
    assert message.endswith("(Current directory: /testbed, current file: none) bash-$")


def test_the_brief_prompts_are_brief():
    prompts = load_prompts("brief")
    assert len(prompts.system().split()) <= 60
    assert len(prompts.system(demonstration=True).split()) - len(prompts.system().split()) <= 120


def test_prompts_can_come_from_a_folder(tmp_path):
    for part in ("system", "issue", "demonstration"):
        (tmp_path / f"{part}.jinja").write_text(f"my {part}")
    prompts = load_prompts(str(tmp_path))
    assert prompts.system(demonstration=True) == "my system\n\nmy demonstration"
    assert prompts.issue("x", "/") == "my issue"


def test_unknown_prompts_name_the_choices(tmp_path):
    with pytest.raises(UsageError, match=r"no prompts 'papre': agent.prompts is one of brief, paper"):
        load_prompts("papre")
    with pytest.raises(UsageError, match=r"needs system, issue and demonstration.jinja"):
        load_prompts(str(tmp_path))


def test_a_broken_template_is_a_usage_error(tmp_path):
    Path(tmp_path / "system.jinja").write_text("{% if %}")
    with pytest.raises(UsageError, match="cannot use"):
        load_prompts(str(tmp_path))


@pytest.mark.parametrize("text", [b"{{ nobody_knows }}", b"\xff"])
def test_a_template_that_cannot_be_filled_in_is_found_when_it_is_loaded(tmp_path, text):
    for part in ("system", "issue", "demonstration"):
        (tmp_path / f"{part}.jinja").write_bytes(b"{{ cwd }}" if part == "issue" else b"x")
    load_prompts(str(tmp_path))
    (tmp_path / "demonstration.jinja").write_bytes(text)
    with pytest.raises(UsageError, match="cannot use"):
        load_prompts(str(tmp_path))
