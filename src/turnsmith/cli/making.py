"""`tasks make`: make tasks from generated repositories (practice tasks), or from bugs put into real packages."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from turnsmith.cli.options import (
    Json,
    Out,
    Plugins,
    Workers,
    answer,
    count_workers,
    resumable,
    takes_sandbox,
    work_in_sandboxes,
)
from turnsmith.cli.tasks import describe_number
from turnsmith.config import SandboxConfig, TaskSetConfig
from turnsmith.errors import UsageError
from turnsmith.io.files import read_prompt, read_text
from turnsmith.runs.folder import read_json
from turnsmith.tasks.dataset import load_tasks
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

if TYPE_CHECKING:
    from turnsmith.synthesis.issues import IssueWriter

Package = Annotated[
    list[str] | None,
    typer.Option("--package", metavar="name==version|PATH", help="Real package to put bugs into; may be repeated."),
]
Packages = Annotated[
    Path | None, typer.Option("--packages", metavar="FILE", help="File with one value of --package per line.")
]
Num = Annotated[int | None, typer.Option("--num", metavar="N", min=1, help="Tasks per package [default: 12].")]
IssuesFrom = Annotated[
    str | None, typer.Option("--issues-from", metavar="URL", help="OpenAI-compatible endpoint that writes the issues.")
]
IssuePrompt = Annotated[
    Path | None,
    typer.Option("--issue-prompt", metavar="FILE", help="Prompt file; $patch, $failures and $repo are filled in."),
]
IssueModel = Annotated[
    str | None, typer.Option("--issue-model", metavar="NAME", help="Name of the model at the endpoint.")
]
Practice = Annotated[
    int | None, typer.Option("--practice", metavar="N", min=1, help="Make N tasks from generated repositories.")
]
Split = Annotated[
    Literal["train", "heldout"] | None, typer.Option("--split", help="Split of the practice tasks [default: train].")
]
Difficulty = Annotated[
    float | None, typer.Option("--difficulty", min=0, max=1, help="Difficulty of the practice tasks [default: 0.3].")
]
Seed = Annotated[int, typer.Option("--seed", help="Random seed.")]
DEFAULT_NUM = 12


@takes_sandbox
def make(
    out: Out,
    sandbox: SandboxConfig,
    package: Package = None,
    packages: Packages = None,
    num: Num = None,
    workers: Workers = None,
    issues_from: IssuesFrom = None,
    issue_prompt: IssuePrompt = None,
    issue_model: IssueModel = None,
    practice: Practice = None,
    split: Split = None,
    difficulty: Difficulty = None,
    seed: Seed = 0,
    plugins: Plugins = None,
    as_json: Json = False,
) -> None:
    """Make tasks from real packages or generated repositories.

    Each task from a package is saved as soon as it is found. The same command continues after an interruption.
    """
    config = sandbox.model_copy(update={"test_plugins": plugins or []})
    sources = [*(package or []), *(read_packages(packages) if packages else [])]
    issues = {"--issues-from": issues_from, "--issue-prompt": issue_prompt, "--issue-model": issue_model}
    for_packages = {"--num": num, "--workers": workers, **issues}
    for_practice = {"--split": split, "--difficulty": difficulty}
    if bool(sources) == bool(practice):
        raise UsageError("give either packages (--package or --packages) or --practice N")
    if practice:
        refuse_given(for_packages, "--package")
        make_practice(out, practice, for_practice, seed, config)
    else:
        refuse_given(for_practice, "--practice")
        writer = choose_writer(issues_from, issue_prompt, issue_model)
        make_of_packages(out, sources, num or DEFAULT_NUM, seed, count_workers(workers), writer, config)
    report_tasks(out, as_json=as_json)


def make_practice(out: Path, num: int, options: Mapping[str, Any], seed: int, sandbox: SandboxConfig) -> None:
    """Make practice tasks from generated repositories, all or none. Options that are None get their defaults."""
    from turnsmith.recipes.task_sets import make_tasks

    given = {name.removeprefix("--"): value for name, value in options.items() if value is not None}
    task_set = TaskSetConfig.model_validate({"practice_tasks": num, **given})
    work_in_sandboxes(sandbox, partial(make_tasks, out.name, task_set, seed, out))


def make_of_packages(
    out: Path,
    sources: Sequence[str],
    num: int,
    seed: int,
    num_workers: int,
    writer: "IssueWriter",
    sandbox: SandboxConfig,
) -> None:
    """Make `num` tasks from each real package, saving each as it is found. Raises UsageError."""
    from turnsmith.synthesis.making import MakingSpec, make_package_bugs

    check_one_exists(sources)
    spec = MakingSpec(tuple(dict.fromkeys(sources)), num, seed)
    with resumable():
        work_in_sandboxes(sandbox, partial(make_package_bugs, spec, out, num_workers, writer))


def check_one_exists(sources: Sequence[str]) -> None:
    """Check that at least one source is an existing package. Raises the first source's UsageError if none is."""
    from turnsmith.synthesis.sources import check_source

    faults = []
    for source in sources:
        try:
            check_source(source)
        except UsageError as error:
            faults.append(error)
    if len(faults) == len(sources):
        raise faults[0]


def choose_writer(url: str | None, prompt: Path | None, model: str | None) -> "IssueWriter":
    """Choose the writer of issues: a template or an endpoint. Raises UsageError if an endpoint option is missing or wrong."""
    from turnsmith.curation.scoring import find_key
    from turnsmith.engines.endpoint.ask import ChatEndpoint, check_url
    from turnsmith.synthesis.issues import PLACEHOLDERS, EndpointWriter, keep_template

    if url and prompt and model:
        return EndpointWriter(ChatEndpoint(check_url(url), model, find_key()), read_prompt(prompt, PLACEHOLDERS))
    if url or prompt or model:
        raise UsageError("--issues-from, --issue-prompt and --issue-model go together: give all three or none")
    return keep_template


def read_packages(file: Path) -> list[str]:
    """Read package names, one per line; `#` begins a comment. Raises UsageError."""
    remedy = "give name==version, one per line"
    lines = [line.partition("#")[0].strip() for line in read_text(file, "the packages", remedy).splitlines()]
    if not any(lines):
        raise UsageError(f"{file} names no packages: {remedy}")
    return [line for line in lines if line]


def refuse_given(options: Mapping[str, Any], other: str) -> None:
    """Raise UsageError if the user gave an option that has an effect only with option `other`."""
    if ignored := [name for name, value in options.items() if value is not None]:
        raise UsageError(f"{ignored[0]} has no effect without {other}: leave it out")


def report_tasks(out: Path, *, as_json: bool) -> None:
    """Print the tasks that were made and, for each mutator (kind of bug), the share of its bugs that became tasks."""
    tasks, counts = load_tasks(out), read_counts(out)
    data = {"folder": str(out), "num_tasks": len(tasks), "instance_ids": [task.instance_id for task in tasks]}

    def show() -> None:
        rows = [(name, c["tried"], c["kept"], f"{c['kept'] / c['tried']:.0%}") for name, c in counts.items()]
        if rows:
            make_console().print(make_table(["mutator", "bugs", "tasks", "kept"], rows, num_names=1))
        typer.echo(f"{describe_number(tasks)} in {out}")

    answer(data | ({"mutators": counts} if counts else {}), show, as_json=as_json)


def read_counts(out: Path) -> dict[str, dict[str, int]]:
    """Read how many bugs of each mutator were tried and kept; empty for practice tasks."""
    from turnsmith.synthesis.making import MAKING

    return read_json(out / MAKING)["mutators"] if (out / MAKING).exists() else {}
