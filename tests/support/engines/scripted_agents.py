"""Engines without a model, for `engine.kind`."""

import base64
from itertools import chain
from pathlib import Path

from tiny_base.scripted import ScriptedEngine
from turnsmith.chat.tokenizers import load_tokenizer
from turnsmith.tasks.dataset import load_tasks


async def open_gold_engine(setup):
    """Open an engine that applies the gold patch of each task and submits; it reads the configuration's task files."""
    files = [Path(tasks.path) for tasks in setup.config.eval_tasks.values()]
    patches = {task.instance_id: task.patch for task in chain.from_iterable(map(load_tasks, files))}

    def answer(episode_id, turn, history):
        [patch] = [patch for name, patch in patches.items() if f"/{name}/" in f"/{episode_id}/"]
        packed = base64.b64encode(patch.encode()).decode()
        return say(f"echo {packed} | base64 -d | git apply -" if turn == 0 else "submit")

    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), answer)


async def open_idle_engine(setup):
    """Open an engine that submits at once."""
    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), lambda *_: say("submit"))


def say(command):
    return f"Next.\n```command\n{command}\n```"


COMMANDS = [["submit"]]
"""Commands of each attempt of `open_commanding_engine`; further attempts repeat the last list."""


async def open_commanding_engine(setup):
    """Open an engine that runs COMMANDS and then submits."""

    def answer(episode_id, turn, history):
        commands = COMMANDS[min(int(episode_id.rpartition("/")[2]), len(COMMANDS) - 1)]
        return say(commands[turn] if turn < len(commands) else "submit")

    return ScriptedEngine(load_tokenizer(Path(setup.config.model.path)), answer)
