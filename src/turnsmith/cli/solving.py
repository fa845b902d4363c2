"""`solve`: the policy works on an issue of an ordinary git checkout."""

import asyncio
import json
import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnsmith.cli.options import Json
from turnsmith.cli.running import refuse_faulty
from turnsmith.cli.sentences import EXIT_FAILED
from turnsmith.config import RunConfig
from turnsmith.config.extras import require
from turnsmith.config.files import lay_over, read_toml
from turnsmith.errors import OutOfBudget, UsageError
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.runs.folder import RunFolder, claim, locked, remove_unless_named
from turnsmith.runs.versions import record_versions
from turnsmith.ui.interruption import EXIT_STOPPED, announcing
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.environments.equipping import Wishes
    from turnsmith.recipes.solve.solution import Solution
    from turnsmith.recipes.solve.solve import Assignment

Checkout = Annotated[Path, typer.Argument(metavar="PATH", help="Git checkout. It stays as it is, but for --apply.")]
Issue = Annotated[str, typer.Option("--issue", metavar="FILE|TEXT", help="What is wrong.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="TOML file: model, engine, agent, sandbox.")
]
Tests = Annotated[str, typer.Option("--tests", metavar="CMD", help="Run on the patched copy; 0 is passed.")]
Attempts = Annotated[int, typer.Option("-n", "--attempts", metavar="N", min=1, help="Attempts, at once; one is kept.")]
Apply = Annotated[bool, typer.Option("--apply", help="Put the patch into the checkout. Nothing is committed.")]
Python = Annotated[
    str, typer.Option("--python", metavar="VERSION", help="E.g. 3.12 [default: what the project admits].")
]
Install = Annotated[
    list[str] | None,
    typer.Option("--install", metavar="COMMAND", help="Installs what tests need, in place of what is found; repeat."),
]
Bare = Annotated[
    bool, typer.Option("--no-environment", help="Install nothing: this machine's own Python, with pytest.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run folder [default: runs/solve-NAME-TIME].")]
MAX_NAME = 255
"""Characters that the name of a file can have."""
POLICY_KEYS = ("--model.", "--engine.")
HINT = "Any key of the configuration may follow PATH, as in --model.path DIR or --engine.kind openai."


def solve(
    context: typer.Context,
    path: Checkout,
    issue: Issue,
    config: Config = None,
    tests: Tests = "",
    attempts: Attempts = 1,
    apply: Apply = False,
    python: Python = "",
    install: Install = None,
    no_environment: Bare = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Let the policy work on an issue of a git checkout; it leaves a patch.

    The agent sees a copy of what git tracks, changes that are not committed among it, in a sandbox without network."""
    from turnsmith.environments.equipping import Wishes
    from turnsmith.git.checkout import open_checkout, read_tree
    from turnsmith.recipes.solve.solve import Assignment

    text, resolved = read_issue(issue), configure(config, context.args)
    checkout = open_checkout(path)
    wishes = None if no_environment else Wishes(python, tuple(install or []))
    refuse_contradictions(resolved, wishes, python, install)
    folder = RunFolder(choose_folder(out, checkout.path, checkout.name))
    assignment = Assignment(resolved, folder, checkout, read_tree(checkout), text, tests, attempts, wishes)
    work_on(assignment, apply=apply, as_json=as_json)


def read_issue(given: str) -> str:
    """The text of a file, or the text itself. Raises UsageError where there is none."""
    is_text = "\n" in given or "\0" in given or len(given) > MAX_NAME
    if not is_text and Path(given).is_file():
        try:
            text = Path(given).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"--issue {given} is not UTF-8 text: give a text file") from None
    elif given.strip() and len(given.split()) == 1:
        raise UsageError(f"--issue {given}: there is no such file, and one word is no issue: say what is wrong")
    else:
        text = given
    if not text.strip():
        raise UsageError("--issue is empty: say what is wrong, or give a file that does")
    return text


def configure(file: Path | None, overrides: list[str]) -> RunConfig:
    """The policy, its agent and the sandboxes; what else a configuration holds is left out. Raises UsageError."""
    if file is None and not any(word.startswith(POLICY_KEYS) for word in overrides):
        raise UsageError("no policy is named: give --model.path DIR, keys of --engine, or a file by --config")
    config = lay_over(read_toml(file) if file else {}, overrides, file or Path("the command line"), RunConfig)
    parts: dict[str, Any] = {"rft": None, "stages": [], "train_tasks": None, "eval_tasks": {}, "tracking": []}
    config = make_paths_absolute(config.model_copy(update=parts))
    refuse_faulty(config)
    return config


def refuse_contradictions(config: RunConfig, wishes: "Wishes | None", python: str, install: list[str] | None) -> None:
    """Raises UsageError for options that do not go together."""
    if wishes is None and (python or install):
        raise UsageError("--python and --install are for an environment: leave out --no-environment")
    if wishes is not None and config.sandbox.kind != "local":
        raise UsageError(f"sandbox.kind {config.sandbox.kind} shows no environment: add --no-environment")
    if wishes is not None:
        require("uv", otherwise=", or do without by --no-environment")


def choose_folder(out: Path | None, checkout: Path, name: str) -> Path:
    """Where the run goes: never into the checkout, which stays as it is. Raises UsageError."""
    if out and out.resolve().is_relative_to(checkout):
        raise UsageError(f"--out {out} is in the checkout: give a folder outside of it")
    title = f"solve-{name}-{datetime.now():%Y%m%d-%H%M%S}"
    if out or not Path.cwd().is_relative_to(checkout):
        return out or Path("runs") / title
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "turnsmith" / title


def work_on(assignment: "Assignment", *, apply: bool, as_json: bool) -> None:
    """Make the attempts, say what came of them, apply. Ends with the exit code of what came of it."""
    from turnsmith.recipes.solve.solution import STAGE, TASK_SET, conclude

    folder, was_stopped = assignment.folder, False
    is_new = claim(folder, assignment.config.model_dump(mode="json"))
    if not is_new or folder.issue.exists():
        raise UsageError(f"{folder.path} holds another run: give another --out")
    with announcing(remark="attempts that ended are kept"), locked(folder):
        record_versions(folder)
        try:
            watch_attempts(assignment)
        except KeyboardInterrupt:
            was_stopped = True
        except OutOfBudget as error:
            warn(error)
        except UsageError as error:
            if not folder.eval_trajectories(STAGE, TASK_SET).exists():
                remove_unless_named(folder, error)
                raise
            warn(error)
        solution = conclude(folder, assignment.tests)
    applied = apply and solution.is_success and not was_stopped
    files = put_into_checkout(assignment) if applied else []
    report(assignment, solution, files, as_json=as_json)
    if apply and not applied:
        typer.echo("not applied: there is no patch that could be counted on", err=True)
    if was_stopped:
        typer.echo("stopped", err=True)
        raise typer.Exit(EXIT_STOPPED)
    raise typer.Exit(0 if solution.is_success else EXIT_FAILED)


def warn(error: Exception) -> None:
    """What ended the attempts; what they found is kept."""
    typer.echo(f"error: {to_line(str(error))} (here: give the command again, with another --out)", err=True)


def watch_attempts(assignment: "Assignment") -> None:
    """Watched on standard error."""
    from turnsmith.recipes.solve.solve import solve
    from turnsmith.ui.solving import Screen

    screen = Screen(make_console(stderr=True), assignment.folder.log)
    screen.say(f"run folder {assignment.folder.path}")
    if assignment.config.sandbox.kind == "subprocess":
        screen.say("warning: sandbox.kind is subprocess: the agent is not isolated from this machine")
    asyncio.run(solve(assignment, screen))


def put_into_checkout(assignment: "Assignment") -> list[str]:
    """The files that were changed. Raises UsageError where the checkout has changed since it was copied."""
    from turnsmith.git.checkout import apply_patch

    patch = assignment.folder.patch
    try:
        return apply_patch(assignment.checkout, assignment.tree, patch.read_bytes().decode(errors="surrogateescape"))
    except UsageError as error:
        raise UsageError(f"{error}: it is in {patch}") from None


def report(assignment: "Assignment", solution: "Solution", applied: list[str], *, as_json: bool) -> None:
    """What came of it, on standard output."""
    from turnsmith.ui.solving import show_solution

    folder = assignment.folder
    if as_json:
        facts = {"folder": str(folder.path), "success": solution.is_success, "applied": applied}
        typer.echo(json.dumps(facts | solution.model_dump(mode="json"), indent=2))
        return
    console = make_console()
    show_solution(folder, solution, console)
    if applied:
        console.print(f"{'applied':14}{', '.join(applied)}", soft_wrap=True)
    elif solution.kept:
        command = ["git", "-C", str(assignment.checkout.path), "apply", str(folder.patch.absolute())]
        console.print(f"{'apply':14}{shlex.join(command)}", soft_wrap=True)
