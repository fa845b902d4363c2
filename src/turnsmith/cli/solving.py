"""`solve`: let the policy work on an issue of a git checkout."""

import asyncio
import os
import shlex
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnsmith.cli.errors import EXIT_FAILED
from turnsmith.cli.options import Install, Json, Python, answer
from turnsmith.cli.running import refuse_faulty
from turnsmith.config import RunConfig
from turnsmith.config.extras import require
from turnsmith.config.files import lay_over, read_toml
from turnsmith.errors import OutOfBudget, UsageError
from turnsmith.io.files import read_text
from turnsmith.recipes.paths import make_paths_absolute
from turnsmith.recipes.policy.names import TOKEN_ENGINES
from turnsmith.runs.folder import RunFolder, claim, locked, remove_unless_named
from turnsmith.runs.versions import record_versions
from turnsmith.sandboxes.names import load_provider
from turnsmith.training.directories import find_model
from turnsmith.ui.interruption import EXIT_STOPPED, announcing
from turnsmith.ui.terminal import make_console, to_line

if TYPE_CHECKING:
    from turnsmith.environments.equipping import EnvironmentOptions
    from turnsmith.recipes.solve.solution import Solution
    from turnsmith.recipes.solve.solve import Assignment

Checkout = Annotated[Path, typer.Argument(metavar="PATH", help="Git checkout; unchanged without --apply.")]
Issue = Annotated[str, typer.Option("--issue", metavar="FILE|TEXT", help="Issue: a text file, or the text itself.")]
Config = Annotated[
    Path | None, typer.Option("--config", metavar="FILE", help="Configuration of model, engine, agent, sandbox.")
]
Tests = Annotated[
    str,
    typer.Option("--tests", metavar="CMD", help="Test command to run on the patched copy; exit code 0 means passed."),
]
Attempts = Annotated[
    int, typer.Option("-n", "--attempts", metavar="N", min=1, help="Number of parallel attempts; the best one is kept.")
]
Apply = Annotated[bool, typer.Option("--apply", help="Apply the patch to the checkout, without committing it.")]
Bare = Annotated[
    bool, typer.Option("--no-environment", help="Install nothing, and use this machine's Python and pytest.")
]
Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Run folder [default: runs/solve-NAME-TIME].")]
MAX_NAME = 255
"""Maximum number of characters of a file name; a longer `--issue` is the text itself."""
POLICY_KEYS = ("--model.", "--engine.")
HINT = "Configuration keys can follow PATH as options, e.g. --model.path DIR or --engine.kind openai."


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
    """Let the policy solve an issue of a git checkout.

    The agent works on a copy of the tracked files, including uncommitted changes, in a sandbox without network. The result is a
    patch.
    """
    from turnsmith.environments.equipping import EnvironmentOptions
    from turnsmith.git.checkout import open_checkout, read_tree
    from turnsmith.recipes.solve.solve import Assignment

    text, resolved = read_issue(issue), configure(config, context.args)
    checkout = open_checkout(path)
    options = None if no_environment else EnvironmentOptions(python, tuple(install or []))
    refuse_contradictions(resolved, options, python, install)
    folder = RunFolder(choose_folder(out, checkout.path, checkout.name))
    assignment = Assignment(resolved, folder, checkout, read_tree(checkout), text, tests, attempts, options)
    work_on(assignment, apply=apply, as_json=as_json)


def read_issue(given: str) -> str:
    """Return the issue from a file, or the given text itself. Raises UsageError if it is empty or a missing file."""
    is_text = "\n" in given or "\0" in given or len(given) > MAX_NAME
    if not is_text and Path(given).is_file():
        text = read_text(Path(given), "--issue", "give a text file")
    elif given.strip() and len(given.split()) == 1:
        raise UsageError(f"--issue {given} is neither a file nor a sentence: describe the problem")
    else:
        text = given
    if not text.strip():
        raise UsageError("--issue is empty: describe the problem")
    return text


def configure(file: Path | None, overrides: list[str]) -> RunConfig:
    """Load the configuration of policy, agent and sandboxes, and drop its other parts. Raises UsageError."""
    if file is None and not any(word.startswith(POLICY_KEYS) for word in overrides):
        raise UsageError("no policy is given: add --model.path DIR, --engine options, or --config FILE")
    config = lay_over(read_toml(file) if file else {}, overrides, file or Path("the command line"), RunConfig)
    parts: dict[str, Any] = {
        "cold_start": None,
        "rft": None,
        "stages": [],
        "train_tasks": None,
        "eval_tasks": {},
        "tracking": {},
    }
    is_given = "max_context" in config.agent.model_fields_set
    config = make_paths_absolute(config.model_copy(update=parts))
    refuse_faulty(config)
    return limit_context(config, is_given=is_given)


def limit_context(config: RunConfig, *, is_given: bool) -> RunConfig:
    """Lower the default of agent.max_context to the model's positions. Raises UsageError if a given value exceeds them."""
    if config.engine.kind not in TOKEN_ENGINES:
        return config
    from turnsmith.engines.torch.inprocess import check_context, num_positions
    from turnsmith.training.configuration import read_config

    model, agent = read_config(find_model(config.model.path), config.model.rope_scaling), config.agent
    positions = num_positions(model)
    if is_given or positions is None or positions >= agent.max_context:
        check_context(model, agent.max_context)
        return config
    typer.echo(f"agent.max_context is {positions}, the number of positions of the model", err=True)
    return config.model_copy(update={"agent": agent.model_copy(update={"max_context": positions})})


def refuse_contradictions(
    config: RunConfig, options: "EnvironmentOptions | None", python: str, install: list[str] | None
) -> None:
    """Raise UsageError for options that exclude each other."""
    if options is None and (python or install):
        raise UsageError("--python and --install set up an environment, and --no-environment skips it: leave out one")
    if options is not None and not load_provider(config.sandbox).takes_environments:
        raise UsageError(f"sandbox.kind {config.sandbox.kind} cannot use an environment: add --no-environment")
    if options is not None:
        require("uv", otherwise=", or add --no-environment")


def choose_folder(out: Path | None, checkout: Path, name: str) -> Path:
    """Choose the run folder. Raises UsageError if `out` is inside the checkout."""
    if out and out.resolve().is_relative_to(checkout):
        raise UsageError(f"--out {out} is in the checkout: give a folder outside of it")
    title = f"solve-{name}-{datetime.now():%Y%m%d-%H%M%S}"
    if out or not Path.cwd().is_relative_to(checkout):
        return out or Path("runs") / title
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "turnsmith" / title


def work_on(assignment: "Assignment", *, apply: bool, as_json: bool) -> None:
    """Run the attempts, print the solution, and apply its patch if wanted. Exits with 0 if an attempt succeeded, else with 1."""
    from turnsmith.recipes.solve.solution import STAGE, TASK_SET, conclude

    folder, was_stopped = assignment.folder, False
    is_new = claim(folder, assignment.config.model_dump(mode="json"))
    if not is_new or folder.issue.exists():
        raise UsageError(f"{folder.path} contains another run: give another --out")
    with announcing(remark="finished attempts are kept"), locked(folder):
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
        why = "Ctrl-C stopped the attempts" if was_stopped else "no attempt succeeded"
        typer.echo(f"nothing was applied: {why}", err=True)
    if was_stopped:
        typer.echo("stopped", err=True)
        raise typer.Exit(EXIT_STOPPED)
    raise typer.Exit(0 if solution.is_success else EXIT_FAILED)


def warn(error: Exception) -> None:
    """Print the error that ended the attempts to solve the task, and the remedy."""
    typer.echo(f"error: {to_line(str(error))} (run the command again, with another --out)", err=True)


def watch_attempts(assignment: "Assignment") -> None:
    """Run the attempts, and show their turns on standard error."""
    from turnsmith.recipes.solve.solve import solve
    from turnsmith.ui.solving import Screen

    screen = Screen(make_console(stderr=True), assignment.folder.log)
    screen.log(f"run folder {assignment.folder.path}")
    asyncio.run(solve(assignment, screen))


def put_into_checkout(assignment: "Assignment") -> list[str]:
    """Apply the patch and return the changed files. Raises UsageError if the checkout has changed since it was copied."""
    from turnsmith.git.checkout import apply_patch

    patch = assignment.folder.patch
    try:
        return apply_patch(assignment.checkout, assignment.tree, patch.read_bytes().decode(errors="surrogateescape"))
    except UsageError as error:
        raise UsageError(f"{error}: the patch is in {patch}") from None


def report(assignment: "Assignment", solution: "Solution", applied: list[str], *, as_json: bool) -> None:
    """Print the solution on standard output."""
    from turnsmith.ui.solving import show_solution

    folder = assignment.folder

    def show() -> None:
        console = make_console()
        show_solution(folder, solution, console)
        if applied:
            console.print(f"{'applied to':14}{', '.join(applied)}", soft_wrap=True)
        elif solution.kept:
            command = ["git", "-C", str(assignment.checkout.path), "apply", str(folder.patch.absolute())]
            console.print(f"{'apply':14}{shlex.join(command)}", soft_wrap=True)

    facts = {"folder": str(folder.path), "success": solution.is_success, "applied": applied}
    answer(facts | solution.model_dump(mode="json"), show, as_json=as_json)
