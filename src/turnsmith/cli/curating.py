"""`tasks filter`, `split`, `merge`, `decontaminate`, `score`: which tasks stay, where, and what a model says of them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from turnsmith.cli.options import Json, Limit, Out, TaskPath
from turnsmith.config.files import read_toml
from turnsmith.curation.filters import choose_filters
from turnsmith.curation.funnel import Funnel
from turnsmith.curation.splits import parse_parts
from turnsmith.errors import UsageError
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Wanted = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="NAME[=VALUE]", help="Filter or bundle (paper, leaderboard); may be repeated."),
]
FilterFile = Annotated[
    Path | None, typer.Option("--filters", metavar="FILE", help="TOML with a table [filters]: NAME = true, or a limit.")
]
Unknown = Annotated[
    Literal["keep", "drop"], typer.Option("--unknown", help="What becomes of a task that lacks what a filter looks at.")
]
Into = Annotated[str, typer.Option("--into", metavar="NAME=SHARE,…", help="Parts, as train=0.9,eval=0.1.")]
By = Annotated[
    Literal["repo", "id", "date"],
    typer.Option(
        "--by", help="What is never on both sides; forks are one repo. date: the oldest first, the newest last."
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", help="By id: another seed, another split; by repo it breaks ties; by date nothing.")
]
Against = Annotated[
    list[Path], typer.Option("--against", metavar="EVAL", help="Tasks that are evaluated on; may be repeated.")
]
Ways = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="id|repo|patch|issue", help="What is compared; may be repeated [default: all four]."),
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option("--likeness", metavar="patch|issue=L", help="From which likeness two are one task, 0 to 1."),
]

Url = Annotated[str, typer.Option("--endpoint", metavar="URL", help="OpenAI-compatible, as http://localhost:8000/v1.")]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="What the endpoint calls its model.")]
Prompt = Annotated[
    Path | None, typer.Option("--prompt", metavar="FILE", help="Text with $issue, $patch and $tests, in place of ours.")
]
Askers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Questions at once.")]


def filter_tasks(
    path: TaskPath,
    out: Out,
    wanted: Wanted = None,
    filter_file: FilterFile = None,
    unknown: Unknown = "keep",
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Keep the tasks that pass all filters, in the order in which these are given.

    Writes tasks.jsonl, dropped.jsonl with a reason for each task that fell out, and funnel.json.
    """
    from turnsmith.curation.files import filter_task_file

    filters = choose_filters([*(read_filter_file(filter_file) if filter_file else ()), *(wanted or ())])
    with watching() as progress:
        funnel = filter_task_file(path, filters, out, limit, unknown == "drop", progress)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), **funnel.to_json()}, indent=2))
    else:
        print_funnel(funnel)
        typer.echo(f"{funnel.num_left} of {funnel.num_rows} tasks stay, in {out}")


def read_filter_file(file: Path) -> list[str]:
    """`[filters]` with `paper = true` and `max-files = 3` → `["paper", "max-files=3"]`. Raises UsageError."""
    data = read_toml(file)
    table = data.get("filters")
    if not isinstance(table, dict) or len(data) > 1:
        raise UsageError(f"{file}: give one table, [filters], with a line NAME = true or NAME = number for each")
    return [_write_filter(name, value, file) for name, value in table.items() if value is not False]


def _write_filter(name: str, value: Any, file: Path) -> str:
    if value is True:
        return name
    if not isinstance(value, int | float):
        raise UsageError(f"{file}: filters.{name}: give true, false or a number (got {value!r})")
    return f"{name}={value}"


def print_funnel(funnel: Funnel) -> None:
    """One line for each stage, from all tasks down to those that stay."""
    rows = [("all tasks", "", "", funnel.num_rows)]
    for stage in funnel.stages:
        rows.append((str(stage.filter), str(stage.num_dropped), str(stage.num_unknown), stage.num_left))
    make_console().print(make_table(["filter", "dropped", "unknown", "left"], rows, num_names=1))


def split_tasks(
    path: TaskPath,
    into: Into,
    out: Out,
    by: By = "repo",
    seed: Seed = 0,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Split tasks into parts of whole repositories, as near to the wanted shares as these allow.

    By id a hash decides, so that a task falls into the same part in a larger file. By date the oldest tasks go into the
    first part: of one history, a later tree holds the fixes of earlier tasks.
    """
    from turnsmith.curation.files import split_task_file

    parts = parse_parts(into)
    with watching() as progress:
        counts = split_task_file(path, parts, by, seed, out, limit, progress)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "parts": counts}, indent=2))
        return
    total = sum(counts.values())
    rows = [
        (name, str(out / name), count, f"{count / total:.1%}", f"{part.share:.1%}")
        for part, (name, count) in zip(parts, counts.items(), strict=True)
    ]
    make_console().print(make_table(["part", "folder", "tasks", "share", "wanted"], rows, num_names=2))


def merge_tasks(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Two task files or more, or their folders.")],
    out: Out,
    as_json: Json = False,
) -> None:
    """Put several task files into one, with what is on record of their tasks; layers and environments stay where they are."""
    from turnsmith.curation.files import merge_task_files

    with watching() as progress:
        counts = merge_task_files(paths, out, progress)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), "files": counts}, indent=2))
    else:
        typer.echo(f"{sum(counts.values())} tasks of {len(counts)} files, in {out}")


def decontaminate(
    path: TaskPath,
    against: Against,
    out: Out,
    ways: Ways = None,
    likeness: Thresholds = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Leave out training tasks that are tasks of an evaluation set: by id, repository, patch or issue.

    Writes tasks.jsonl, and contaminated.jsonl with each pair that was found and its likeness.
    """
    from turnsmith.curation.contamination import THRESHOLDS, choose_ways, parse_thresholds
    from turnsmith.curation.decontaminate import decontaminate_task_file

    chosen, thresholds = choose_ways(ways or []), THRESHOLDS | parse_thresholds(likeness or [])
    with watching() as progress:
        report = decontaminate_task_file(path, against, chosen, thresholds, out, limit, progress)
    if as_json:
        typer.echo(json.dumps({"folder": str(out), **asdict(report)}, indent=2))
        return
    rows = [(way, report.num_found.get(way, 0), report.num_too_short.get(way, 0)) for way in chosen]
    make_console().print(make_table(["compared by", "found", "too short to compare"], rows, num_names=1))
    typer.echo(f"{report.num_left} of {report.num_rows} tasks stay, in {out}")


def score_tasks(
    path: TaskPath,
    url: Url,
    model: Model,
    prompt: Prompt = None,
    workers: Askers = 4,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Ask a model how hard and how clear each task is that its set has not scored; kept beside the task file for `filter`.

    The key of the endpoint, if it needs one, is read from OPENAI_API_KEY.
    """
    from turnsmith.curation.score_file import find_key, score_task_file
    from turnsmith.curation.scoring import PROMPT, read_prompt
    from turnsmith.engines.endpoint.ask import ChatEndpoint, check_url

    endpoint, template = ChatEndpoint(check_url(url), model, find_key()), read_prompt(prompt or PROMPT)
    with watching() as progress:
        counts = score_task_file(path, endpoint, template, workers, limit, progress)
    if as_json:
        typer.echo(json.dumps(counts, indent=2))
    else:
        typer.echo(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items()))


COMMANDS: dict[str, Callable[..., None]] = {
    "filter": filter_tasks,
    "split": split_tasks,
    "merge": merge_tasks,
    "decontaminate": decontaminate,
    "score": score_tasks,
}
"""Those of this file, by the names that people give."""
