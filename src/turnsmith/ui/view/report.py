"""Pages of one run as a single offline file, or as a folder for a web server.

A report contains the pages of `turnsmith view` and, compressed, the data that they ask for. JSON answers are packed into
blocks, each of which is a compressed list of answers. Trajectories are packed task by task, in random order, until the
limit of size is reached. Tokens are left out. A browser decompresses a block when a page needs it.
"""

import base64
import json
import random
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from turnsmith.errors import UsageError
from turnsmith.io.files import write_file
from turnsmith.runs.summaries import TrajectorySummary
from turnsmith.ui.curves import render_curves
from turnsmith.ui.view.answers import describe_trajectory, summarise_run, to_json
from turnsmith.ui.view.grids import list_grids
from turnsmith.ui.view.groups import list_attempts
from turnsmith.ui.view.opened import OpenedRun
from turnsmith.ui.view.overview import describe_configuration, describe_episodes, describe_run, list_steps
from turnsmith.ui.view.server import PAGES

BLOCK_BYTES = 2**19
"""Size of a block before compression, in bytes; a block ends with the answer that reaches it."""
MODULES = (
    "dom",
    "data",
    "keys",
    "colouring",
    "difference",
    "continuation",
    "group",
    "run",
    "runs",
    "tasks",
    "trajectories",
    "trajectory",
    "main",
)
"""Modules of the pages; each imports only modules before it."""
BASE64_FACTOR = 4 / 3
"""Factor by which base64 lengthens data."""


@dataclass(frozen=True)
class RunReport:
    """Data of a report: the answers about the whole run, and compressed blocks of trajectories."""

    main: dict[str, Any]
    blocks: list[bytes]
    num_all: int
    """Number of trajectories of the run."""

    @property
    def num_kept(self) -> int:
        """Number of trajectories in the report."""
        return len(self.main["places"])

    @property
    def faults(self) -> list[str]:
        """One sentence about each damaged trajectory."""
        return list(self.main["faults"].values())


@dataclass
class Packer:
    """Packer of JSON answers into compressed blocks."""

    blocks: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)

    def add(self, answer: bytes) -> tuple[int, int]:
        """Add an answer; return its block and its position there."""
        place = len(self.blocks), len(self.pending)
        self.pending.append(answer)
        if sum(map(len, self.pending)) >= BLOCK_BYTES:
            self.flush()
        return place

    def flush(self) -> None:
        """Compress the pending answers into a block."""
        if self.pending:
            self.blocks.append(zlib.compress(b"[" + b",".join(self.pending) + b"]", 9))
            self.pending = []

    @property
    def num_bytes(self) -> int:
        """Number of bytes of the finished blocks."""
        return sum(map(len, self.blocks))


def write_report(run: OpenedRun, file: Path, max_bytes: int) -> RunReport:
    """Write a report as one file of at most about `max_bytes`, unless the overview alone is larger."""
    report = make_report(run, lambda num_bytes: num_bytes * BASE64_FACTOR < max_bytes)
    blocks = [encode(block) for block in report.blocks]
    write_file(file, make_page({"main": encode(pack_main(report)), "blocks": blocks}))
    return report


def write_site(run: OpenedRun, folder: Path) -> RunReport:
    """Write all trajectories as a static folder: a page, and a file for each block."""
    report = make_report(run, lambda num_bytes: True)
    for number, block in enumerate(report.blocks):
        write_file(folder / "blocks" / f"{number}.deflate", block)
    write_file(folder / "index.html", make_page({"main": encode(pack_main(report)), "blocks": len(report.blocks)}))
    return report


def encode(data: bytes) -> str:
    """Encode bytes in base64."""
    return base64.b64encode(data).decode()


def pack_main(report: RunReport) -> bytes:
    """Compress the answers about the whole run."""
    return zlib.compress(to_json(report.main), 9)


def make_report(run: OpenedRun, fits: Callable[[int], bool]) -> RunReport:
    """Collect the data of a report, with trajectories for as long as `fits(number of bytes so far)` is true.

    A damaged trajectory has a sentence instead.
    """
    rows = list_attempts(run)
    answers = {
        "": [{"name": run.name, **summarise_run(run)}],
        "run": describe_run(run),
        "steps": list_steps(run),
        "running": [],
        "tasks": list_grids(run),
        "episodes": describe_episodes(run),
        "configuration": describe_configuration(run, None),
    }
    main: dict[str, Any] = {"answers": answers, "rows": rows, "curves": encode(render_curves(run.folder))}
    main |= {"places": {}, "faults": {}}
    packer = Packer()
    size = len(zlib.compress(to_json(main)))
    for journal, summary in shuffle(run):
        if not fits(size + packer.num_bytes):
            break
        name = f"{journal}/{summary.start}"
        try:
            main["places"][name] = packer.add(to_json(describe_trajectory(run, journal, summary.start)))
        except UsageError as error:
            main["faults"][name] = str(error)
    packer.flush()
    return RunReport(main, packer.blocks, len(rows))


def shuffle(run: OpenedRun) -> list[tuple[str, TrajectorySummary]]:
    """List the trajectories of a run by task, in a random order of tasks that is equal for equal runs.

    All attempts at a task are neighbours, because equal prompts and issues in one block compress well.
    """
    summaries = [*run.list_summaries()]
    tasks = sorted({summary.instance_id for _, summary in summaries})
    random.Random(0).shuffle(tasks)
    rank = {task: position for position, task in enumerate(tasks)}
    return sorted(summaries, key=lambda found: rank[found[1].instance_id])


def make_page(store: dict[str, Any]) -> str:
    """Make the HTML page with the pages' style, their modules in one script, and the data. Only these may be executed."""
    script, style = bundle_modules(), (PAGES / "style.css").read_text()
    sources = {"script-src": script, "style-src": style}
    hashes = "; ".join(f"{kind} 'sha256-{encode(sha256(text.encode()).digest())}'" for kind, text in sources.items())
    policy = f"default-src 'none'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; {hashes}"
    data = json.dumps(store)
    return (
        f'<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Turnsmith</title>\n'
        f"<style>{style}</style>\n"
        f'<header><nav id="path" aria-label="Path"></nav></header>\n<main id="page" tabindex="-1"></main>\n'
        f'<script type="application/json" id="store">{data}</script>\n<script type="module">{script}</script>\n</html>\n'
    )


def bundle_modules() -> str:
    """Join the modules of the pages into one script; each becomes a function that returns its exports."""
    return "\n".join(bundle(name, (PAGES / f"{name}.js").read_text()) for name in MODULES)


def bundle(name: str, code: str) -> str:
    """Turn one module into a function that returns its exports."""
    exports = re.findall(r"^export (?:async )?(?:function|const) (\w+)", code, re.MULTILINE)
    code = re.sub(r"^export ", "", code, flags=re.MULTILINE)
    code = re.sub(r'^import (\{[^}]*\}) from "\./(\w+)\.js";$', r"const \1 = \2Module;", code, flags=re.MULTILINE)
    code = re.sub(r'^import "\./\w+\.js";$', "", code, flags=re.MULTILINE)
    return f"const {name}Module = (() => {{\n{code}\nreturn {{ {', '.join(exports)} }};\n}})();"
