"""Engines that play without a model, for `engine.kind`: one writes the gold patch, the other gives up at once."""

import base64
from itertools import chain
from pathlib import Path

from tiny_base.scripted import ScriptedEngine
from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.tasks.dataset import load_tasks


async def open_gold_engine(setup):
    """Applies the gold patch of each task and submits; it knows them from the configuration's task files."""
    files = [Path(tasks.path) for tasks in setup.config.eval_tasks.values()]
    patches = {task.instance_id: task.patch for task in chain.from_iterable(map(load_tasks, files))}

    def answer(episode_id, turn, history):
        [patch] = [patch for name, patch in patches.items() if f"/{name}/" in f"/{episode_id}/"]
        packed = base64.b64encode(patch.encode()).decode()
        return say(f"echo {packed} | base64 -d | git apply -" if turn == 0 else "submit")

    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), answer)


async def open_idle_engine(setup):
    """Submits what it finds."""
    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), lambda *_: say("submit"))


def say(command):
    return f"Next.\n```command\n{command}\n```"


COMMANDS = [["submit"]]
"""What the attempts of `open_commanding_engine` do, one list for each; further ones do what the last does."""


async def open_commanding_engine(setup):
    """Runs the commands that a test has put into COMMANDS, and submits where they end."""

    def answer(episode_id, turn, history):
        commands = COMMANDS[min(int(episode_id.rpartition("/")[2]), len(COMMANDS) - 1)]
        return say(commands[turn] if turn < len(commands) else "submit")

    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), answer)
