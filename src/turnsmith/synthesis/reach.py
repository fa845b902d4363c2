"""Which test files can notice a bug at all: those that call a function of which a changed line is part.

The others need not run: what they execute is the same with the bug and without.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from types import CodeType

from turnsmith.grading.testing import TEST_ENV, Suite
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.synthesis.bugs import Bug

PLUGIN = Path(__file__).with_name("reaching.py").read_text(encoding="utf-8")
ANSWER = ".turnsmith-reached"
PATIENCE = 5.0
"""Times as long as without it may the tests take with the plugin."""
Lines = Mapping[str, frozenset[int]]
"""Path → numbers of lines."""


@dataclass(frozen=True)
class Reach:
    """What each test file calls."""

    called: Mapping[str, Lines | None]
    """Test file → what it calls; None where it cannot be told."""

    def find_files(self, bug: Bug) -> tuple[str, ...]:
        """Test files that a bug may matter to."""
        changed: dict[str, set[int]] = {}
        for path, mutation in bug.mutations:
            touched, code = set(mutation.lines), find_code_lines(mutation.source)
            changed.setdefault(path, set()).update(touched & code or code)
        return tuple(file for file, lines in self.called.items() if _meets(lines, changed))


def _meets(lines: Lines | None, changed: Mapping[str, set[int]]) -> bool:
    return lines is None or any(lines.get(path, frozenset()) & touched for path, touched in changed.items())


def find_code_lines(source: str) -> set[int]:
    """Lines that the code of a module is of. Raises SyntaxError."""
    waiting, lines = [compile(source, "module", "exec", dont_inherit=True)], set[int]()
    while waiting:
        code = waiting.pop()
        lines.update(line for *_, line in code.co_lines() if line)
        waiting += [part for part in code.co_consts if isinstance(part, CodeType)]
    return lines


async def find_reach(provider: SandboxProvider, layers: tuple[Path, ...], suite: Suite) -> Reach:
    """Run each test file by itself and note what it calls. Raises SandboxError."""
    return Reach({file: await find_called(provider, layers, suite, file) for file in suite.files})


async def find_called(provider: SandboxProvider, layers: tuple[Path, ...], suite: Suite, file: str) -> Lines | None:
    """What one test file calls; None where it starts processes, or does not come to its end. Raises SandboxError."""
    write = f'printf %s {quote(PLUGIN)} > "$HOME/turnsmith_reaching.py"'
    path = f'export PYTEST_PLUGINS=turnsmith_reaching PYTHONPATH="$PYTHONPATH:$HOME" TURNSMITH_REACHED={ANSWER}'
    async with started(provider, SandboxSpec(layers, suite.workdir, image=suite.image)) as sandbox:
        script = f"{write}; {path}; {suite.command} {quote(file)}"
        await sandbox.exec(script, timeout_s=PATIENCE * suite.timeout_s, env=TEST_ENV)
        try:
            answer = json.loads(await sandbox.read(ANSWER))
        except (OSError, ValueError):
            return None
    if not answer["is_whole"]:
        return None
    return {path: frozenset(lines) for path, lines in answer["lines"].items()}
