"""Commands of README and docs: each is run here on small inputs, or is in a list with the reason why it cannot run."""

import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))]
BLOCK = re.compile(r"^ *```(?:bash)?\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
STARTS = ("turnsmith ", "make ", "pip ", "python ", "export ", "for ", "ray ", ". ", "~/", "REPO=", "OMP_", "VLLM_")
SMALL = (
    "--train_tasks.practice_tasks 48 --eval_tasks.practice.practice_tasks 24 --eval_tasks.inflection null "
    "--stages.0.iterations 1 --stages.0.tasks_per_iteration 8 --stages.1.iterations 1 --stages.1.tasks_per_iteration 8"
)

FEW = "--eval_tasks.practice.practice_tasks 4 --eval_tasks.inflection null --out runs/five"
SERVE = "timeout --preserve-status -s INT 8"
GOLD = (
    "import json; tasks = map(json.loads, open(0)); "
    "rows = [{'instance_id': task['instance_id'], 'model_patch': task['patch']} for task in tasks]; "
    "print(*map(json.dumps, rows), sep='\\n')"
)
PREDICT = f'python -c "{GOLD}" < tasks/toolz/tasks.jsonl > preds.jsonl'
FIRST = (
    "turnsmith run configs/smollm2.toml --out runs/first --rft null --train_tasks.practice_tasks 6 "
    "--eval_tasks.practice.practice_tasks 6 --stages.0.iterations 1 --stages.0.tasks_per_iteration 6 --stages.0.group_size 4 "
    "--stages.1.iterations 1 --stages.1.tasks_per_iteration 6 --stages.1.group_size 4 --stages.1.curriculum false"
)

RUNS = {
    "turnsmith doctor": "turnsmith doctor",
    "turnsmith run configs/laptop.toml --seed 1 --out runs/mine": f"turnsmith run configs/laptop.toml --out runs/mine {SMALL}",
    "turnsmith resume runs/mine": "turnsmith resume runs/mine",
    "turnsmith resume runs/mine --stages.1.iterations 8": "turnsmith resume runs/mine --stages.1.iterations 2",
    "turnsmith show runs/mine --trajectory eval-stage2": "turnsmith show runs/mine --trajectory eval-stage2",
    "turnsmith show runs/mine --outcome resolved --sort turns": "turnsmith show runs/mine --outcome resolved --sort turns",
    "turnsmith show RUN --trajectory eval-stage2": "turnsmith show runs/mine --trajectory eval-stage2",
    "turnsmith results runs/mine --json": "turnsmith results runs/mine --json",
    "turnsmith compare runs/mine:rft runs/mine": "turnsmith compare runs/mine:rft runs/mine",
    "turnsmith compare RUN:rft RUN": "turnsmith compare runs/mine:rft runs/mine",
    "turnsmith compare runs/mine:base runs/mine": "turnsmith compare runs/mine:base runs/mine",
    "turnsmith compare runs/mine:rft/practice runs/mine:stage1/practice --json": (
        "turnsmith compare runs/mine:rft/practice runs/mine:stage1/practice --json"
    ),
    "turnsmith compare runs/mine:base runs/mine:best": "turnsmith compare runs/mine:base runs/mine:best",
    "turnsmith compare runs/mine:base runs/mine:stage1 --best-of rft,stage1": (
        "turnsmith compare runs/mine:base runs/mine:stage1 --best-of rft,stage1"
    ),
    "turnsmith compare runs/mine:base runs/mine:stage1 --by family --by turns": (
        "turnsmith compare runs/mine:base runs/mine:stage1 --by family --by turns"
    ),
    "turnsmith view runs/mine": f"{SERVE} turnsmith view runs/mine --port 0 || [ $? = 130 ]",
    "turnsmith view RUN": f"{SERVE} turnsmith view runs/mine --port 0 || [ $? = 130 ]",
    "turnsmith view runs --port 0": f"{SERVE} turnsmith view runs --port 0 || [ $? = 130 ]",
    "turnsmith plan configs/laptop.toml": "turnsmith plan configs/laptop.toml",
    "turnsmith plan configs/laptop.toml --from runs/mine": "turnsmith plan configs/laptop.toml --from runs/mine",
    "turnsmith report runs/mine --out report.html": "turnsmith report runs/mine --out report.html",
    "turnsmith report runs/mine --site site/mine": "turnsmith report runs/mine --site site/mine",
    "turnsmith mismatch runs/mine": "turnsmith mismatch runs/mine",
    "turnsmith audit runs/mine --limit 200": "turnsmith audit runs/mine --limit 5",
    "turnsmith export runs/mine --out models/mine": "turnsmith export runs/mine --out models/mine",
    "turnsmith tasks make --practice 32 --seed 100 --out tasks/cold": "turnsmith tasks make --practice 4 --out tasks/cold",
    "turnsmith tasks demonstrate tasks/cold --out demonstrations --config configs/smollm2.toml": (
        "turnsmith tasks demonstrate tasks/cold --out demonstrations --config configs/smollm2.toml"
    ),
    FIRST: f"{FIRST} --model.path tiny --eval_tasks.practice.practice_tasks 2 --cold_start.batch_size 2",
    "turnsmith show runs/first --trajectory stage1": "turnsmith show runs/first --trajectory stage1",
    "turnsmith doctor --model.path DIR": "turnsmith doctor --model.path models/mine",
    "turnsmith provenance runs/mine": "turnsmith provenance runs/mine",
    "turnsmith resume RUN --tracking '[\"tensorboard\"]'": "turnsmith resume runs/mine --tracking '[\"tensorboard\"]'",
    "turnsmith tasks make --package toolz==1.0.0 --out tasks/toolz": "turnsmith tasks make --practice 8 --out tasks/toolz",
    "turnsmith tasks demonstrate tasks/toolz --out demonstrations": (
        "turnsmith tasks demonstrate tasks/toolz --out demonstrations-2"
    ),
    "turnsmith tasks qualify tasks/toolz": "turnsmith tasks qualify tasks/toolz",
    "turnsmith tasks filter tasks/set --filter paper --out tasks/few": (
        "turnsmith tasks filter tasks/toolz --filter paper --out tasks/few"
    ),
    "turnsmith tasks filter TASKS --filter paper --filter max-issue-words=2000 --out DIR": (
        "turnsmith tasks filter tasks/toolz --filter paper --filter max-issue-words=2000 --out tasks/short"
    ),
    "turnsmith tasks split TASKS --into train=0.9,eval=0.1 --out DIR": (
        "turnsmith tasks split tasks/toolz --into train=0.9,eval=0.1 --out tasks/parts"
    ),
    "turnsmith tasks decontaminate TRAIN --against EVAL --out DIR": (
        "turnsmith tasks decontaminate tasks/parts/train --against tasks/parts/eval --out tasks/clean"
    ),
    "turnsmith tasks stats tasks/toolz": "turnsmith tasks stats tasks/toolz",
    "turnsmith grade preds.jsonl --tasks TASKS": f"{PREDICT}; turnsmith grade preds.jsonl --tasks tasks/toolz",
    "turnsmith compare preds.jsonl other.jsonl": (
        "cp preds.jsonl other.jsonl; turnsmith grade other.jsonl --tasks tasks/toolz; turnsmith compare preds.jsonl other.jsonl"
    ),
    "turnsmith eval configs/laptop.toml --limit 5": f"turnsmith eval configs/laptop.toml --limit 2 {FEW}",
}
"""Command in a page → the same command on small inputs. They run in this order, in one folder."""

ELSEWHERE = [
    ("*", "make demo*", "minutes: the small run of RUNS takes the same path"),
    ("*", "make test*", "runs these tests"),
    ("*", "make docs*", "test_site.py builds the site"),
    ("*", ". .venv/bin/activate", "changes the shell"),
    ("*", "pip install*", "installs packages"),
    (
        "docs/plan.md",
        "turnsmith plan configs/*.toml --hardware *",
        "needs a model's config.json: test_plan_page.py runs it",
    ),
    ("*", "turnsmith view * --terminal", "needs a terminal: tests/cli/test_viewing.py runs it"),
    ("docs/comparing.md", "turnsmith compare * RUN:base/package", "needs a run on the tasks of the predictions"),
    ("docs/smollm2.md", "turnsmith doctor --model.path models/smollm2", "needs the published model"),
    ("docs/smollm2.md", "*-96*", "hours: the first iteration takes the same path"),
    ("docs/smollm2.md", "*-9005*", "hours: the run behind the figures"),
    ("docs/smollm2.md", "turnsmith view runs/first", "as turnsmith view runs/mine"),
    ("docs/models.md", "turnsmith doctor --model.path hub:*", "needs a hub: tests/training/published runs it"),
    ("*", "turnsmith models get *", "needs the package index or a file: tests/training/published runs it"),
    ("*", "turnsmith redteam*", "minutes: tests/audit/redteam runs the scripts one by one"),
    ("*", "turnsmith solve *", "needs packages of an index: tests/cli/test_solving.py runs it"),
    ("*", "turnsmith tasks mine PATH*", "test_your_repository.py runs it"),
    ("*", "turnsmith tasks import SET*", "needs rows of a public data set: tests/cli/test_importing.py runs it"),
    (
        "docs/data-sets.md",
        "turnsmith tasks import swe-rebench *",
        "needs a public data set: tests/cli/test_importing.py runs it",
    ),
    ("*", "turnsmith tasks images *", "needs a container engine"),
    ("*", "turnsmith eval configs/served-model.toml*", "needs a model behind an API"),
    ("docs/index.md", "turnsmith run *wandb*", "needs an account"),
    ("docs/your-repository.md", "*", "test_your_repository.py runs the whole page"),
    ("docs/results.md", "*", "hours on an idle machine: the commands that measured the figures"),
    ("docs/endpoint.md", "*", "needs a model behind an API"),
    ("docs/vllm.md", "*", "needs vLLM in its own environment: make test-vllm"),
    ("docs/cluster.md", "*", "needs several GPUs or machines: make test-ranks"),
]
"""Page, command, reason: commands that this test does not run."""


def list_commands(page):
    """Return the commands of a page's code blocks, without comments, with continued lines joined."""
    blocks = BLOCK.findall(page.read_text(encoding="utf-8").replace("\\\n", " "))
    lines = [re.sub(r"\s+#\s.*$", "", line).strip() for block in blocks for line in block.splitlines()]
    return [" ".join(line.split()) for line in lines if line.startswith(STARTS)]


COMMANDS = [(str(page.relative_to(ROOT)), command) for page in PAGES for command in list_commands(page)]


def find_reasons(page, command):
    """Return the entries of ELSEWHERE for a command."""
    return [
        entry
        for entry in ELSEWHERE
        if fnmatchcase(page, entry[0]) and fnmatchcase(command, entry[1].replace("[", "[[]"))
    ]


def test_every_command_runs_or_has_a_reason():
    assert len(COMMANDS) > 60
    assert [
        (page, command) for page, command in COMMANDS if command not in RUNS and not find_reasons(page, command)
    ] == []


def test_no_entry_is_left_over():
    commands = {command for _, command in COMMANDS}
    assert [command for command in RUNS if command not in commands] == []
    used = {entry for page, command in COMMANDS for entry in find_reasons(page, command)}
    assert [entry for entry in ELSEWHERE if entry not in used] == []


def test_small_inputs_change_only_the_arguments():
    names = {command: re.match(r"turnsmith (?:tasks )?[a-z]+", command)[0] for command in RUNS}
    assert [command for command, name in names.items() if f"{name} " not in f"{RUNS[command]} "] == []


@pytest.mark.parametrize("command", ["turnsmith show RUN --new", "make nothing", "ray stop"])
def test_an_unknown_command_is_detected(command):
    assert command not in RUNS and not find_reasons("README.md", command)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_commands_run_on_small_inputs(tmp_path):
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    script = "\n".join(dict.fromkeys(RUNS.values()))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}
    command = ["bash", "-euxc", script]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
