"""`tasks filter`, `split`, `merge`, `decontaminate` and `score`: select tasks and divide them into sets."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from turnsmith.cli.options import Json, Limit, Out, TaskPath, answer
from turnsmith.curation.filters import choose_filters
from turnsmith.curation.funnel import Funnel
from turnsmith.curation.splits import parse_parts
from turnsmith.io.files import read_prompt
from turnsmith.ui.live import watching
from turnsmith.ui.tables import make_table
from turnsmith.ui.terminal import make_console

Wanted = Annotated[
    list[str] | None,
    typer.Option("--filter", metavar="NAME[=VALUE]", help="Filter, or group of them (paper, leaderboard); repeatable."),
]
Unknown = Annotated[
    Literal["keep", "drop"], typer.Option("--unknown", help="Keep or drop tasks that lack the data for a filter.")
]
Into = Annotated[
    str, typer.Option("--into", metavar="NAME=SHARE,…", help="Each part's name and share of tasks: train=0.9,eval=0.1.")
]
By = Annotated[
    Literal["repo", "id", "date"],
    typer.Option(
        "--by",
        help="Rule. repo: parts share no repository (forks count as one); id: by a hash; date: the first part is the oldest.",
    ),
]
Seed = Annotated[
    int, typer.Option("--seed", help="Random seed of --by id; with --by repo it decides between equally good splits.")
]
Against = Annotated[
    list[Path], typer.Option("--against", metavar="EVAL", help="Evaluation tasks to compare with; may be repeated.")
]
Ways = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="id|repo|patch|issue", help="Field to compare; may be repeated [default: all]."),
]
Thresholds = Annotated[
    list[str] | None,
    typer.Option("--likeness", metavar="patch|issue=L", help="Minimum similarity of duplicates, from 0 to 1 (equal)."),
]

Url = Annotated[
    str, typer.Option("--endpoint", metavar="URL", help="OpenAI-compatible API, e.g. http://localhost:8000/v1.")
]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="Name of the model at the endpoint.")]
Prompt = Annotated[
    Path | None, typer.Option("--prompt", metavar="FILE", help="Prompt file; $issue, $patch and $tests are filled in.")
]
Askers = Annotated[int, typer.Option("--workers", metavar="N", min=1, help="Number of parallel requests.")]


def filter_tasks(
    path: TaskPath,
    out: Out,
    wanted: Wanted = None,
    unknown: Unknown = "keep",
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Keep the tasks that pass all filters.

    Filters run in the given order. Write tasks.jsonl, dropped.jsonl with a reason for each dropped task, and funnel.json.
    """
    from turnsmith.curation.files import filter_task_file

    filters = choose_filters(wanted or ())
    with watching() as progress:
        funnel = filter_task_file(path, filters, out, limit, unknown == "drop", progress)
    answer({"folder": str(out), **funnel.to_json()}, lambda: print_funnel(funnel, out), as_json=as_json)


def print_funnel(funnel: Funnel, out: Path) -> None:
    rows = [("all tasks", "", "", funnel.num_rows)]
    for stage in funnel.stages:
        rows.append((str(stage.filter), str(stage.num_dropped), str(stage.num_unknown), stage.num_left))
    make_console().print(make_table(["filter", "dropped", "unknown", "left"], rows, num_names=1))
    typer.echo(f"{funnel.num_left} of {funnel.num_rows} tasks kept in {out}")


def split_tasks(
    path: TaskPath,
    into: Into,
    out: Out,
    by: By = "repo",
    seed: Seed = 0,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Split tasks into parts, which share no repository by default (--by repo).

    Parts by repository come as close to the wanted shares as whole repositories allow.

    --by id assigns each task by a hash, so that it stays in the same part if the file grows. --by date puts the oldest tasks
    into the first part; name the training part first, since trees of later tasks contain fixes of earlier ones.
    """
    from turnsmith.curation.files import split_task_file

    parts = parse_parts(into)
    with watching() as progress:
        counts = split_task_file(path, parts, by, seed, out, limit, progress)
    total = sum(counts.values())
    rows = [
        (name, str(out / name), count, f"{count / total:.1%}", f"{part.share:.1%}")
        for part, (name, count) in zip(parts, counts.items(), strict=True)
    ]
    table = make_table(["part", "folder", "tasks", "share", "wanted"], rows, num_names=2)
    answer({"folder": str(out), "parts": counts}, lambda: make_console().print(table), as_json=as_json)


def merge_tasks(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Two or more task files, or their folders.")],
    out: Out,
    as_json: Json = False,
) -> None:
    """Merge task files into one.

    Qualification records and scores are merged too. Working trees and environments are not copied.
    """
    from turnsmith.curation.files import merge_task_files

    with watching() as progress:
        counts = merge_task_files(paths, out, progress)
    text = f"{sum(counts.values())} tasks of {len(counts)} files in {out}"
    answer({"folder": str(out), "files": counts}, lambda: typer.echo(text), as_json=as_json)


def decontaminate(
    path: TaskPath,
    against: Against,
    out: Out,
    ways: Ways = None,
    likeness: Thresholds = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Remove training tasks that duplicate evaluation tasks.

    Tasks are compared by id, repository, patch and issue. Write tasks.jsonl, and contaminated.jsonl with each duplicate and its
    similarity.
    """
    from turnsmith.curation.contamination import THRESHOLDS, choose_ways, decontaminate_task_file, parse_thresholds

    chosen, thresholds = choose_ways(ways or []), THRESHOLDS | parse_thresholds(likeness or [])
    with watching() as progress:
        report = decontaminate_task_file(path, against, chosen, thresholds, out, limit, progress)

    def show() -> None:
        rows = [(way, report.num_found.get(way, 0), report.num_too_short.get(way, 0)) for way in chosen]
        make_console().print(make_table(["compared by", "found", "too short to compare"], rows, num_names=1))
        typer.echo(f"{report.num_left} of {report.num_rows} tasks kept in {out}")

    answer({"folder": str(out), **asdict(report)}, show, as_json=as_json)


def score_tasks(
    path: TaskPath,
    url: Url,
    model: Model,
    prompt: Prompt = None,
    workers: Askers = 4,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Score difficulty and clarity of tasks with a model.

    Tasks that have scores are skipped. The scores are written beside the task file, where `tasks filter` reads them. The API
    key, if needed, is read from OPENAI_API_KEY.
    """
    from turnsmith.curation.scoring import PLACEHOLDERS, PROMPT, find_key, score_task_file
    from turnsmith.engines.endpoint.ask import ChatEndpoint, check_url

    endpoint, template = (
        ChatEndpoint(check_url(url), model, find_key()),
        read_prompt(prompt or PROMPT, [*PLACEHOLDERS], "issue"),
    )
    with watching() as progress:
        counts = score_task_file(path, endpoint, template, workers, limit, progress)
    text = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in counts.items())
    answer(counts, lambda: typer.echo(text), as_json=as_json)


COMMANDS: dict[str, Callable[..., None]] = {
    "filter": filter_tasks,
    "split": split_tasks,
    "merge": merge_tasks,
    "decontaminate": decontaminate,
    "score": score_tasks,
}
"""Subcommands of `turnsmith tasks`."""
