"""Expert: it finds the code by what it has seen, repairs its mistakes, and knows nothing that the dialogue did not show."""

import random
import re
import subprocess
from pathlib import Path

import pytest

from turnsmith.agent.expert.expert import Expert, Habits, SolvedTask, choose_fence
from turnsmith.agent.expert.hands import Hands
from turnsmith.agent.tools.files import TextFile
from turnsmith.agent.tools.viewing import render_window
from turnsmith.chat.parsing import parse_turn
from turnsmith.types import Task

FILES = {
    "pkg/__init__.py": "",
    "pkg/shop.py": "from pkg.sums import add_up\n\n\ndef total(prices):\n    return add_up(prices)\n",
    "pkg/sums.py": 'def unused():\n    return 0\n\n\ndef add_up(values):\n    """Add up values."""\n    return len(values)\n',
    "tests/test_shop.py": "from pkg.shop import total\n\n\ndef test_prices():\n    assert total([2, 3]) == 5\n",
}
FIXED = {"pkg/sums.py": FILES["pkg/sums.py"].replace("len(values)", "sum(values)")}
TEST = "tests/test_shop.py::test_prices"
TASK = Task(
    instance_id="shop", repo="r", base_commit="0", problem_statement=f"One test fails:\n\n{TEST}: assert 2 == 5",
    FAIL_TO_PASS=[TEST], PASS_TO_PASS=[], patch="", layers=["shop"], test_command="python -m pytest -q --tb=no",
)  # fmt: skip
PAPER = ("create", "edit", "goto", "open", "replace", "scroll_down", "scroll_up", "search_file", "submit")
WINDOW = 6


class Shell:
    """Repository on disk in which the commands of an expert run: the tools `open`, `goto`, `edit`, or the real shell."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file, self.first = folder, "", 1
        for path, text in FILES.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)

    def run(self, command: str) -> str:
        name, *arguments = command.split()
        match name:
            case "open":
                self.file, self.first = arguments[0], int(arguments[1])
            case "goto":
                self.first = int(arguments[0])
            case "scroll_down":
                self.first += WINDOW - 2
            case "edit":
                self.edit(command)
            case "search_file":
                rows = subprocess.run(
                    ["grep", "-n", *re.findall('"(.*)" (.*)', command)[0]], cwd=self.folder, capture_output=True
                )
                return f"[Lines with 'x' in /testbed/{arguments[-1]}: 1]\n{rows.stdout.decode()}"
            case "python":
                return "1 passed" if self.is_fixed else f"{TEST.partition(':')[0]}:5: in test_prices\nE   assert 2 == 5"
            case _:
                done = subprocess.run(command, shell=True, cwd=self.folder, capture_output=True, text=True)
                return done.stdout + done.stderr
        text = (self.folder / self.file).read_text()
        return render_window(TextFile(f"/testbed/{self.file}", text), self.first, WINDOW)

    @property
    def is_fixed(self) -> bool:
        return all((self.folder / path).read_text() == text for path, text in FIXED.items())

    def edit(self, command: str) -> None:
        first, last, body = re.fullmatch(r"edit (\d+):(\d+)[^\n]* << 'EOF'\n(.*)EOF", command, re.DOTALL).groups()
        path = self.folder / self.file
        lines = path.read_text().split("\n")
        path.write_text("\n".join([*lines[: int(first) - 1], *body.split("\n")[:-1], *lines[int(last) :]]))


def play(folder, *, tools=PAPER, seed=0, solution=None, max_bytes=10_000, **habits):
    """Play an episode, and return its moves, each with the text of the dialogue before it."""
    expert = Expert(
        solution or SolvedTask(TASK, FILES, FIXED),
        Hands(tools, WINDOW),
        Habits(**habits),
        random.Random(seed),
        max_bytes,
    )
    shell, seen, moves = Shell(folder), TASK.problem_statement, []
    observation = seen
    for _ in range(30):
        expert.read(observation)
        _, move = expert.choose()
        moves.append((move, seen))
        if move.command == "submit":
            return moves
        observation = shell.run(move.command)
        seen += f"\n{observation}"
    raise AssertionError([move.command for move, _ in moves])


@pytest.mark.parametrize("tools", [PAPER, ("submit",)], ids=["paper", "bash"])
@pytest.mark.parametrize("mistakes", [0.0, 1.0])
@pytest.mark.parametrize("seed", range(6))
def test_the_expert_resolves_a_bug_two_calls_below_the_test(tmp_path, tools, mistakes, seed):
    moves = [move for move, _ in play(tmp_path, tools=tools, seed=seed, mistakes=mistakes)]
    assert (tmp_path / "pkg/sums.py").read_text() == FIXED["pkg/sums.py"]
    assert sum(move.is_mistake for move in moves) == mistakes
    assert [move.act for move in moves[-2:]] == ["test", "submit"]


@pytest.mark.parametrize("seed", range(6))
def test_names_paths_and_lines_were_seen_before_they_are_used(tmp_path, seed):
    for move, seen in play(tmp_path, seed=seed, mistakes=0.0):
        if move.act == "search":
            assert move.subject in re.findall(r"\w+", f"{seen} prices")
        if move.act in ("open", "read_on"):
            assert move.path in seen
        if move.act == "edit":
            assert "7:    return len(values)" in seen and "5:def add_up(values):" in seen


def test_the_way_leads_through_the_calls(tmp_path):
    moves = [move for move, _ in play(tmp_path, reproduce=0.0, mistakes=0.0)]
    assert [move.subject for move in moves if move.act == "search"] == ["test_prices", "total", "add_up"]


def test_an_expert_that_cannot_see_a_way_gives_up(tmp_path):
    lost = SolvedTask(TASK, FILES | {"far.py": "def far():\n    return 1\n"}, {"far.py": "def far():\n    return 2\n"})
    moves = [move for move, _ in play(tmp_path, solution=lost, reproduce=0.0, mistakes=0.0)]
    assert moves[-1].act == "give_up" and not any(move.act == "edit" for move in moves)


def test_a_repair_follows_a_failed_test(tmp_path):
    for seed in range(20):
        acts = [move.act for move, _ in play(tmp_path / str(seed), seed=seed, mistakes=1.0, reproduce=0.0)]
        if "repair" in acts:
            assert acts[acts.index("edit") :] == ["edit", "test", "repair", "test", "submit"]
            return
    raise AssertionError("no episode made a wrong edit")


def test_paths_are_quoted_and_no_line_ends_a_heredoc_early():
    hands = Hands(PAPER, WINDOW)
    assert hands.view("my code/a.py", 3, "", 0) == "open './my code/a.py' 3"
    assert hands.edit("a.py", 1, 2, ["EOF", "EOFF"], "a.py") == "edit 1:2 << 'EOFFF'\nEOF\nEOFF\nEOFFF"


def test_an_edit_that_is_too_long_replaces_only_the_changed_lines():
    body = "".join(f"    values = [*values, {number}]\n" for number in range(5))
    files = FILES | {"pkg/sums.py": f"def add_up(values):\n{body}    return len(values)\n"}
    fixed = {"pkg/sums.py": files["pkg/sums.py"].replace("len", "sum")}
    solution = SolvedTask(TASK, files, fixed)
    sizes = []
    for max_bytes in (1_000, 60):
        expert = Expert(solution, Hands(PAPER, WINDOW), Habits(), random.Random(0), max_bytes)
        change = expert.find_next()
        sizes.append(len(change.lines))
    assert sizes == [6, 1]


def test_a_created_file_is_tested(tmp_path):
    created = SolvedTask(TASK, FILES, {"NEWS.md": "Fixed.\n"})
    moves = [move.act for move, _ in play(tmp_path, solution=created, reproduce=1.0, mistakes=0.0)]
    assert moves == ["reproduce", "create", "test", "submit"]


def test_no_line_of_a_command_closes_its_block():
    command = "cat > ./a.md << 'EOF'\n```python\n````\nEOF"
    fence = choose_fence(command)
    assert fence == "`````" and choose_fence("ls") == "```"
    assert parse_turn(f"Write it.\n{fence}command\n{command}\n{fence}") == command
