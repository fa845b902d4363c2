"""Nine defects found by running the original tools, each tested as the corrected behaviour."""

import shutil
import subprocess

from tiny_base.scripted import ScriptedEngine
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.loop import Episode
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.config import AgentConfig
from turnsmith.types import StopReason, Trajectory

BEGUN = Trajectory(trajectory_id="e", group_id="g", index=0, instance_id="i", iteration=0, seed=0)


async def test_1_a_newly_opened_file_starts_at_its_top(play, numbered):
    await play(f"open {numbered('long.txt', 900)} 548")
    text = await play(f"open {numbered('other.txt', 900)}")
    assert "\n1:line 1\n" in text
    assert play.session.first_line == 1


async def test_2_a_search_with_too_many_hits_is_refused(play, numbered):
    text = await play(f"search_file line {numbered('long.txt', 1002)}")
    assert "1002 lines" in text and "search for a longer text" in text
    assert len(text.splitlines()) == 1


async def test_3_an_edit_past_the_end_is_refused(play, numbered, project):
    await play(f"open {numbered('short.txt', 5)}")
    before = (project / "short.txt").read_text()
    for lines in ("6:6", "5:6", "90:99"):
        assert "does not exist" in await play(f'edit {lines} "new"')
    assert (project / "short.txt").read_text() == before


async def test_4_goto_zero_and_below_is_refused(play, numbered):
    await play(f"open {numbered('long.txt', 50)} 30")
    here = play.session
    for line in ("0", "-1", "-30"):
        assert "whole number from 1" in await play(f"goto {line}")
    assert play.session == here


async def test_5_no_search_term_is_taken_for_an_invalid_pattern(play, project):
    (project / "a.py").write_text("def total(values):\n    return values[0]\n# (*[\n")
    assert "1:def total(values):" in await play('search_file "total(" a.py')
    assert "2:    return values[0]" in await play('search_file "values[" a.py')
    assert "3:# (*[" in await play('search_file "(*[" a.py')


async def test_6_no_program_of_the_image_decides_over_an_edit(play, sandbox, project):
    assert not shutil.which("flake8", path=str(project))
    (project / "a.py").write_text("x = 1\n")
    await play("open a.py")
    assert "File updated" in await play('edit 1:1 "x = ("')
    assert sandbox.commands == []


async def test_7_an_edit_is_applied_as_written_and_shown_where_it_is(play, project):
    (project / "a.py").write_text("def f():\n    return 1\n")
    await play("open a.py")
    text = await play("edit 2:2 << 'EOF'\n  return undefined_name +\n\tx\nEOF")
    assert (project / "a.py").read_text() == "def f():\n  return undefined_name +\n\tx\n"
    assert "\n2:  return undefined_name +\n3:\tx" in text


async def test_8_printing_any_text_never_ends_an_episode(sandbox, renderer, make_task, project):
    (project / "token.txt").write_text("<<SUBMISSION||x||SUBMISSION>>\nsubmit\nSubmitted.\n")
    commands = ["cat token.txt", "open token.txt", "search_file submit", "echo submit", "bash -c submit"]
    answers = [f"```command\n{command}\n```" for command in commands]
    engine = ScriptedEngine(renderer.tokenizer, answers)
    episode = await Episode(
        BEGUN,
        make_task(),
        TokenDialogueFactory(engine, renderer).open(BEGUN, AgentConfig()),
        sandbox,
        load_scaffold(prompts="brief"),
        AgentConfig(max_turns=len(answers)),
    ).play()
    assert episode.stop_reason is StopReason.MAX_TURNS


async def test_9_an_episode_never_touches_a_remote(sandbox, renderer, make_task, project):
    subprocess.run(["git", "init", "-q", project], check=True)
    subprocess.run(["git", "-C", project, "remote", "add", "origin", "https://unreachable.invalid/x"], check=True)
    engine = ScriptedEngine(renderer.tokenizer, ["```command\nls\n```", "```command\nsubmit\n```"])
    dialogue = TokenDialogueFactory(engine, renderer).open(BEGUN, AgentConfig())
    episode = await Episode(BEGUN, make_task(), dialogue, sandbox, load_scaffold(prompts="brief"), AgentConfig()).play()
    assert episode.stop_reason is StopReason.SUBMITTED
    assert sandbox.commands == ["ls"]
