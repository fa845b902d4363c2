from pathlib import Path

import pytest

from support.episodes.silence import Silence
from support.models.small_tokenizers import make_tokenizer
from tiny_base.scripted import ScriptedEngine
from turnsmith.agent.dialogues.tokens import TokenDialogueFactory
from turnsmith.agent.scaffolds.base import load_scaffold
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.config import SandboxConfig
from turnsmith.errors import SandboxError
from turnsmith.grading.grading import Grader
from turnsmith.rollouts.generator import Generator
from turnsmith.sandboxes import make_provider
from turnsmith.synthesis.repositories import make_patch, to_tree, write_bug_layer, write_shared_layer
from turnsmith.types import Task, TaskTree

CLEAN = "def double(x):\n    return x * 2\n\n\ndef half(x):\n    return x // 2\n"
BUGGY = CLEAN.replace("x * 2", "x + 2")
TESTS = (
    "from numbers_ import double, half\n\n\ndef test_double():\n    assert double(3) == 6\n\n\n"
    "def test_half():\n    assert half(6) == 3\n"
)


def turn(command):
    return f"Next.\n```command\n{command}\n```"


FIX = [turn("open numbers_.py"), turn("replace 'x + 2' 'x * 2'"), turn("submit")]
GIVE_UP = [turn("submit")]


@pytest.fixture(scope="session")
def renderer():
    return ChatRenderer(make_tokenizer())


@pytest.fixture
async def provider():
    provider = make_provider(SandboxConfig())
    yield provider
    await provider.close()


@pytest.fixture
def tree(tmp_path):
    """Make a task and its working tree."""
    files = to_tree({"numbers_.py": CLEAN, "test_numbers.py": TESTS})
    layers = (tmp_path / "clean", tmp_path / "bug")
    write_shared_layer(layers[0], files)
    commit = write_bug_layer(layers[1], files, {"numbers_.py": BUGGY.encode()})
    made = Task(
        instance_id="numbers-1",
        repo="numbers",
        base_commit=commit,
        problem_statement="double is wrong",
        FAIL_TO_PASS=["test_numbers.py::test_double"],
        PASS_TO_PASS=["test_numbers.py::test_half"],
        patch=make_patch("numbers_.py", BUGGY, CLEAN),
        layers=[str(layer) for layer in layers],
    )
    return TaskTree(made, layers)


class FailingProvider:
    """Provider whose first sandbox starts fail."""

    def __init__(self, provider, num_failures):
        self.provider, self.num_failures = provider, num_failures
        self.isolation = provider.isolation

    async def start(self, spec):
        if self.num_failures:
            self.num_failures -= 1
            raise SandboxError("no room on this machine")
        return await self.provider.start(spec)

    async def close(self):
        await self.provider.close()


@pytest.fixture
def make_generator(provider, renderer):
    """Make a generator with a scripted policy; the first `num_failures` sandbox starts fail."""

    def make(answers, config, num_failures=0):
        engine = ScriptedEngine(renderer.tokenizer, answers, stop_token_id=renderer.end_of_turn_id)
        grader = Grader(provider, tests_timeout_s=30, num_workers=2)
        failing, scaffold = FailingProvider(provider, num_failures), load_scaffold(prompts="brief")
        return Generator(TokenDialogueFactory(engine, renderer), failing, grader, scaffold, config, Silence())

    return make


@pytest.fixture
def journal(tmp_path) -> Path:
    return tmp_path / "run" / "trajectories.jsonl"
