"""Choice of the expert's next command: reproduce, find the code, read it, change it, test, submit."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from turnsmith.agent.expert.changes import LineChange, find_change
from turnsmith.agent.expert.code_map import CodeMap, Definition
from turnsmith.agent.expert.hands import Hands
from turnsmith.agent.expert.mistakes import misspell, spoil
from turnsmith.agent.expert.sight import Sight
from turnsmith.agent.expert.wording import write_thought
from turnsmith.types import Task

MAX_VIEWS = 3
"""Number of views of one definition, beyond those that show all its lines, after which the expert looks for another way."""
MAX_STEPS = 12
"""Number of views and searches after which an expert that has found no code to change gives up."""
MAX_TESTS = 2
"""Number of failing tests that one test command names."""
MAX_QUOTED = 80
"""Longest line, in characters, that the thought of an edit quotes."""


@dataclass(frozen=True)
class SolvedTask:
    """Task with the texts of its files before and after the gold patch."""

    task: Task
    files: Mapping[str, str]
    """Path, relative to the working directory → text of each Python file and each file that the patch changes."""
    fixed: Mapping[str, str | None]
    """Path → text of each file that the patch changes, after the patch; None if the patch deletes it."""

    @cached_property
    def code_map(self) -> CodeMap:
        return CodeMap(self.files)


@dataclass(frozen=True)
class Habits:
    """Settings of the expert's demonstrations."""

    reproduce: float = 0.5
    """Share of episodes that begin with the failing test."""
    mistakes: float = 0.2
    """Share of episodes with one mistake, which the expert repairs."""
    short_body: int = 10
    """Number of lines up to which an edit rewrites the whole body of a function."""


@dataclass(frozen=True)
class Move:
    """Turn of the expert: a thought and a command."""

    act: str
    """Kind of the command, which selects the thought, e.g. `search`."""
    command: str
    path: str = ""
    """File that the observation will show without naming it."""
    subject: str = ""
    """Name, path or lines that the thought mentions."""
    is_mistake: bool = False


@dataclass
class Expert:
    """Expert that plays one episode of a task."""

    solution: SolvedTask
    hands: Hands
    habits: Habits
    rng: random.Random
    max_bytes: int
    """Longest text of an edit; beyond it an edit replaces only the changed lines."""
    sight: Sight = field(init=False)
    files: dict[str, str] = field(init=False)
    """Texts of the files as the expert has left them."""
    last: Move | None = field(default=None, init=False)
    open_path: str = field(default="", init=False)
    views: dict[Definition, int] = field(default_factory=dict, init=False)
    """Definition → number of commands that looked for it or at it."""
    done: set[str] = field(default_factory=set, init=False)
    """Commands that were given once and need no repetition."""
    repair: LineChange | None = field(default=None, init=False)
    """Change that corrects a mistaken edit; None without one."""
    is_tested: bool = field(default=False, init=False)
    """True if the tests ran after the last edit."""

    def __post_init__(self) -> None:
        self.sight, self.files = Sight(self.solution.task.workdir), dict(self.solution.files)
        self.reproduces = self.rng.random() < self.habits.reproduce
        errs = self.rng.random() < self.habits.mistakes
        self.mistake = self.rng.choice(("search", "edit")) if errs else ""

    def read(self, observation: str) -> None:
        """Take in an observation, or the messages before the first turn."""
        self.sight.take(observation, self.last.path if self.last else "")

    def choose(self) -> tuple[str, Move]:
        """Choose the next move, and return it with the text of the turn."""
        move = self.plan()
        self.last = move
        if self.mistake == move.act and move.is_mistake:
            self.mistake = ""
        thought = write_thought(move.act, move.subject, self.rng)
        fence = choose_fence(move.command)
        return f"{thought}\n{fence}command\n{move.command}\n{fence}", move

    def plan(self) -> Move:
        """Plan the next move."""
        tests = self.find_tests()
        if self.reproduces and tests and not self.last:
            return self.test("reproduce", tests)
        if self.repair and tests and not self.is_tested:
            return self.test("test", tests)
        if change := self.repair or self.find_next():
            return self.work_on(change)
        if move := self.change_whole_file():
            return move
        if not self.is_tested:
            return self.test("test", tests)
        return Move("submit", "submit")

    def find_tests(self) -> list[str]:
        """Find the failing tests that the dialogue has named; a few of them."""
        named = [test for test in self.solution.task.FAIL_TO_PASS if test.partition("::")[0] in self.sight.paths]
        known = [test for test in named if set(test.partition("[")[0].split("::")[1:]) <= self.sight.words]
        return known[:MAX_TESTS]

    def test(self, act: str, tests: list[str]) -> Move:
        """Run tests; with no names, all tests."""
        self.is_tested = True
        return Move(act, self.hands.test(self.solution.task, tests))

    def find_next(self) -> LineChange | None:
        """Find the next change to make in an existing file, or None."""
        for path, fixed in self.solution.fixed.items():
            before = self.files.get(path)
            if before is not None and fixed is not None and before != fixed:
                change = find_change(path, before, fixed, self.habits.short_body)
                is_long = change is not None and len("\n".join(change.lines).encode()) > self.max_bytes
                return find_change(path, before, fixed, short_body=0) if is_long else change
        return None

    def change_whole_file(self) -> Move | None:
        """Create or delete the next file that the gold patch adds or deletes; return None if there is none left."""
        for path, fixed in self.solution.fixed.items():
            if (fixed is None) == (path not in self.files):
                continue
            self.is_tested = False
            if fixed is None:
                del self.files[path]
                return Move("remove", self.hands.remove(path), subject=path)
            self.files[path] = fixed
            return Move("create", self.hands.create(path, fixed), subject=path)
        return None

    def work_on(self, change: LineChange) -> Move:
        """Make a change if its lines and their definition were seen, else get nearer to them."""
        content = self.files[change.path].split("\n")
        last = min(change.last + 1, len(content), change.enclosing.last if change.enclosing else change.last)
        needed = self.list_needed(change, max(last, change.last))
        missing = [line for line in needed if not self.sight.has_seen(change.path, line, content)]
        if not missing:
            return self.edit(change)
        if change.enclosing:
            is_located = self.sight.has_seen(change.path, change.first_needed, content)
        else:
            is_located = change.path in self.sight.paths
        return self.view(change.path, choose_start(needed, missing)) if is_located else self.find(change)

    def list_needed(self, change: LineChange, last: int) -> list[int]:
        """List the lines to read before a change: from the definition on, or around it if a traceback led into the definition."""
        first, span = change.first_needed, self.hands.window_lines
        near = [
            line
            for path, line in self.sight.places
            if path == change.path and first < line and abs(line - change.first) < span
        ]
        if not near or last - first < 2 * span:
            return [*range(first, last + 1)]
        return [first, *range(max(first + 1, min(*near, change.first) - 2), last + 1)]

    def edit(self, change: LineChange) -> Move:
        """Make a change, or a wrong one that is repaired later."""
        errs = self.mistake == "edit" and not self.repair and bool(change.lines) and bool(self.find_tests())
        lines = tuple(spoil(change.lines, self.rng)) if errs else change.lines
        is_mistake = lines != change.lines
        old = self.files[change.path].split("\n")
        command = self.hands.edit(change.path, change.first, change.last, lines, self.open_path)
        replaced = old[change.first - 1 : change.last]
        subject = "" if is_mistake else describe_change(replaced, change.lines, change.first)
        act = "repair" if self.repair else "edit"
        self.files[change.path] = "\n".join([*old[: change.first - 1], *lines, *old[change.last :]])
        self.sight.move(change.path, change.first, change.last, lines)
        self.open_path, self.is_tested = self.find_open(change.path), False
        self.repair = replace(change, last=change.first + len(lines) - 1) if is_mistake else None
        return Move(act, command, change.path, subject, is_mistake)

    def find_open(self, path: str) -> str:
        """Return the path of the open file after a command that opens `path`; empty if the scaffold opens no files."""
        return path if "open" in self.hands.tools else ""

    def view(self, path: str, line: int) -> Move:
        """Show the lines of a file from a line on."""
        shown = self.sight.last_shown
        command = self.hands.view(path, line, self.open_path, shown[1] if shown[0] == path else 0)
        act = "open" if self.open_path != path else "read_on"
        self.open_path = self.find_open(path)
        return Move(act, command, path, path)

    def find(self, change: LineChange) -> Move:
        """Get nearer to a change: look for the seen name that is the fewest steps away from it, or at its code."""
        if change.enclosing is None:
            return self.look_around(change.path)
        goal = self.find_original(change.enclosing)
        distances = self.solution.code_map.measure_distances(goal)
        known = [each for each in distances if each.name in self.sight.words and self.has_views_left(each)]
        if not known or sum(self.views.values()) >= MAX_STEPS:
            return self.look_around(change.path)
        nearest = min(distances[each] for each in known)
        return self.look_for(self.rng.choice([each for each in known if distances[each] == nearest]))

    def has_views_left(self, definition: Definition) -> bool:
        """Return True if another view of the definition may show something new."""
        most = MAX_VIEWS + definition.num_lines // self.hands.window_lines
        return self.views.get(definition, 0) < most and bool(self.list_unread(definition))

    def list_unread(self, definition: Definition) -> list[int]:
        """List the lines of a definition that the dialogue has not shown."""
        content = self.files[definition.path].split("\n")
        lines = range(definition.first, definition.last + 1)
        return [line for line in lines if not self.sight.has_seen(definition.path, line, content)]

    def find_original(self, enclosing: Definition) -> Definition:
        """Find a definition of a changed file in the map of the code, whose lines are those before all edits."""
        key = enclosing.path, enclosing.kind, enclosing.name
        same = [each for each in self.solution.code_map.definitions if (each.path, each.kind, each.name) == key]
        return min(same, key=lambda each: abs(each.first - enclosing.first), default=enclosing)

    def look_for(self, definition: Definition) -> Move:
        """Search for a definition, or read its code if its place is known."""
        self.views[definition] = self.views.get(definition, 0) + 1
        content = self.files[definition.path].split("\n")
        if self.sight.has_seen(definition.path, definition.first, content):
            lines = [*range(definition.first, definition.last + 1)]
            return self.view(definition.path, choose_start(lines, self.list_unread(definition)))
        if self.mistake == "search":
            wanted = misspell(definition.name, self.rng)
            return Move("search", self.hands.search(definition, wanted), subject=definition.name, is_mistake=True)
        if definition.path in self.sight.paths and (self.open_path == definition.path or self.rng.random() < 0.5):
            command = self.hands.search_file(definition.path, definition)
            return Move("search", command, definition.path, definition.name)
        return Move("search", self.hands.search(definition), subject=definition.name)

    def look_around(self, path: str) -> Move:
        """List the definitions of a file, or the files if its path is not known; give up if both were listed."""
        steps = [("list", self.hands.list_files(), "")]
        if path in self.sight.paths:
            steps = [("outline", self.hands.outline(path), path)]
        for act, command, shown in steps:
            if command not in self.done:
                self.done.add(command)
                return Move(act, command, shown, path)
        return Move("give_up", "submit")


def choose_fence(command: str) -> str:
    """Choose the backticks around a command: more than any of its lines begins with."""
    fence = "```"
    while any(line.startswith(fence) for line in command.split("\n")):
        fence += "`"
    return fence


def choose_start(lines: list[int], unread: list[int]) -> int:
    """Choose the first line of a view: the first unread one, or the first of all lines if only that was seen."""
    return lines[0] if unread == lines[1:] else unread[0]


def describe_change(old: list[str], new: tuple[str, ...], first: int) -> str:
    """Describe a change of one line, e.g. "Line 3 must be: return a + b"; return "" for others."""
    if len(old) != len(new):
        return ""
    lines = enumerate(zip(old, new, strict=True), first)
    differing = [(number, line) for number, (before, line) in lines if before != line]
    if len(differing) != 1 or len(differing[0][1]) > MAX_QUOTED:
        return ""
    return f"Line {differing[0][0]} must be: {differing[0][1].strip()}"
