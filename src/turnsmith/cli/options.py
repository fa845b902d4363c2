"""Options that several commands share, and functions that run work in sandboxes and print answers."""

import asyncio
import inspect
import json
import os
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from turnsmith.config import SandboxConfig
from turnsmith.git.diff import check_git
from turnsmith.sandboxes.names import SANDBOXES, load_provider
from turnsmith.tracking import Progress
from turnsmith.ui.interruption import announcing
from turnsmith.ui.live import watching

if TYPE_CHECKING:
    from turnsmith.sandboxes.base import SandboxProvider

T = TypeVar("T")
Run = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TaskPath = Annotated[Path, typer.Argument(metavar="PATH", help="Task file (JSONL), or its folder.")]
Out = Annotated[Path, typer.Option("--out", metavar="DIR", help="New folder for the tasks.")]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", min=1, help="Use only the first N tasks.")]
Chosen = Annotated[list[str] | None, typer.Option("--task", metavar="ID", help="Use only this task; may be repeated.")]
OneTask = Annotated[str, typer.Option("--task", metavar="ID", help="Use only this task.")]
Workers = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Parallel workers [default: one per core].")
]
Timeout = Annotated[
    float, typer.Option("--timeout", metavar="S", min=1, help="Time limit in seconds for the tests of a task.")
]
Python = Annotated[
    str, typer.Option("--python", metavar="VERSION", help="Python version, e.g. 3.9 [default: detected].")
]
Install = Annotated[
    list[str] | None,
    typer.Option(
        "--install",
        metavar="COMMAND",
        help="Command that installs dependencies, instead of the detected commands; may be repeated.",
    ),
]
Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="NAME", help="pytest plugin that tasks may load (sandbox.test_plugins); may be repeated."
    ),
]
SandboxKind = Annotated[
    str,
    typer.Option(
        "--sandbox",
        metavar="KIND",
        help=f"Sandbox backend: {', '.join(SANDBOXES.paths)}, or an import path; subprocess does not isolate the tests.",
    ),
]
Image = Annotated[
    str, typer.Option("--sandbox.image", metavar="NAME|PATH", help="Image for tasks without one (podman only).")
]
Engine = Annotated[
    str, typer.Option("--sandbox.container_engine", metavar="PROGRAM", help="Program to call instead of podman.")
]


def configure_sandbox(kind: SandboxKind = "local", image: Image = "", engine: Engine = "") -> SandboxConfig:
    """Make the sandbox configuration of a command. Raises UsageError if the sandbox kind does not take an option."""
    config = SandboxConfig(kind=kind, image=image, container_engine=engine)
    load_provider(config)
    return config


SANDBOX_OPTIONS = inspect.signature(configure_sandbox).parameters


def takes_sandbox(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command: add the sandbox options, and pass them to it as the SandboxConfig `sandbox`."""

    @wraps(command)
    def run(**options: Any) -> None:
        chosen = {name: options.pop(name) for name in SANDBOX_OPTIONS}
        command(sandbox=configure_sandbox(**chosen), **options)

    own = [each for name, each in inspect.signature(command).parameters.items() if name != "sandbox"]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*own, *SANDBOX_OPTIONS.values())]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def count_workers(wanted: int | None) -> int:
    """Return the number of workers that the user wants, by default the number of cores."""
    return wanted or os.cpu_count() or 1


def resumable() -> AbstractContextManager[None]:
    """Tell the user on Ctrl-C in this block that the same command continues the work."""
    return announcing(remark="finished work is kept, and the same command continues")


def work_in_sandboxes(config: SandboxConfig, work: "Callable[[SandboxProvider, Progress], Awaitable[T]]") -> T:
    """Open a sandbox provider, await `work` with it and with visible progress, and return the result. Raises UsageError."""
    check_git()
    from turnsmith.sandboxes import make_provider

    async def watch() -> T:
        provider = make_provider(config)
        try:
            with watching() as progress:
                return await work(provider, progress)
        finally:
            await provider.close()

    return asyncio.run(watch())


def answer(data: Any, show: Callable[[], object], *, as_json: bool) -> None:
    """Print `data` as JSON, or call `show` to print it for people."""
    if as_json:
        typer.echo(json.dumps(data, indent=2))
    else:
        show()
