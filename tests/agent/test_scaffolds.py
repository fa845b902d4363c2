"""Shell-only scaffold, and selection of scaffolds and extra tools."""

import pytest

from support.pages.page_examples import write_examples
from tiny_base.scripted import ScriptedEngine
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.config import AgentConfig
from turnsmith.errors import UsageError
from turnsmith.types import StopReason, Trajectory


@pytest.fixture
def bash(play_with):
    return play_with(load_scaffold("bash"))


async def test_the_working_directory_is_kept_from_command_to_command(bash, project):
    (project / "src" / "deep").mkdir(parents=True)
    assert await bash("cd src && ls") == "deep"
    assert await bash("cd deep; false") == "(exit code 1)"
    assert await bash("pwd") == f"{project}/src/deep"
    assert bash.scaffold.prompt_line(bash.session) == f"{project}/src/deep $"


async def test_variables_are_not_kept(bash):
    assert await bash("export NAME=here; echo $NAME") == "here"
    assert await bash("echo [$NAME]") == "[]"


async def test_a_command_may_have_several_lines_and_a_heredoc(bash, project):
    await bash("cat > shop.py << 'EOF'\ndef total(prices):\n    return len(prices)\nEOF\nsed -i 's/len/sum/' shop.py")
    assert (project / "shop.py").read_text() == "def total(prices):\n    return sum(prices)\n"


async def test_only_the_command_submit_ends_the_episode(bash):
    for command in ("echo submit", "printf 'Submitted.\\n'", "true && submit", "grep -c submit /dev/null"):
        await bash(command)
        assert not bash.result.submitted
    await bash("submit")
    assert bash.result.submitted


async def test_submit_inside_a_line_is_explained(bash):
    assert "submit is a tool, not a program: call it alone" in await bash("true && submit")


async def test_the_tools_of_the_paper_are_not_there(bash):
    assert "command not found" in await bash("search_file total shop.py")


async def test_more_tools_can_be_given_by_name_and_by_import_path(play_with, numbered):
    scaffold = load_scaffold("bash", tools=["search_file", "turnsmith.agent.tools.viewing:OPEN", "submit"])
    assert [tool.name for tool in scaffold.tools] == ["submit", "search_file", "open"]
    assert "search_file SEARCH_TERM" in scaffold.system()
    assert "1:line 1" in await play_with(scaffold)(f"open {numbered('a.txt', 3)}")


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"name": "bsh"}, "there is no scaffold 'bsh': give bash, paper, or an import path"),
        ({"name": "turnsmith.errors:UsageError"}, "scaffold turnsmith.errors:UsageError is a type: give a"),
        ({"tools": ["opne"]}, "there is no tool 'opne': give create, edit, goto, open"),
        ({"tools": ["turnsmith.errors:UsageError"]}, "tool turnsmith.errors:UsageError is a type: give a"),
    ],
)
def test_an_unknown_scaffold_or_tool_raises_usage_error(chosen, sentence):
    with pytest.raises(UsageError) as caught:
        load_scaffold(**chosen)
    assert sentence in str(caught.value)


async def test_custom_scaffolds_and_tools_are_imported_from_the_working_directory(
    working_directory, play_with, numbered, sandbox, renderer, make_task
):
    write_examples(working_directory)
    assert "count_lines FILE" in load_scaffold("my_scaffold:MINE").system()
    mine = load_scaffold("my_scaffold:MINE", prompts="my_prompts")
    assert await play_with(mine)(f"count_lines {numbered('a.txt', 3)}") == "3 lines"
    assert load_scaffold("bash", tools=["my_tool:COUNT_LINES"]).tools[-1].name == "count_lines"
    engine = ScriptedEngine(
        renderer.tokenizer, [f"```command\n{c}\n```" for c in ("count_lines a.txt", "ls", "submit")]
    )
    begun = Trajectory(trajectory_id="e", group_id="g", index=0, instance_id="i", iteration=0, seed=0)
    dialogue = TokenDialogueFactory(engine, renderer).open(begun, AgentConfig())
    episode = await Episode(begun, make_task(), dialogue, sandbox, mine, AgentConfig()).play()
    assert episode.stop_reason is StopReason.SUBMITTED
    assert episode.turns[0].observation == f"3 lines\n{sandbox.root} $"
    assert "Tools: count_lines, submit." in renderer.tokenizer.decode(episode.token_ids.tolist())
