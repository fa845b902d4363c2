"""Check of finished runs against the claims about the recipe: `python bench/recipe.py RUN… --control RUN… [--check]`.

The table shows Pass@1 of base, RFT and the last stage on the held-out practice tasks, and paired tests clustered by repository. A
control repeats one of the runs with rewards permuted among the trajectories of an iteration. `--check` exits with 1 if a bound
is missed, or if the runs do not fit together.

    turnsmith run configs/laptop.toml --seed 0 --out runs/seed-0
    turnsmith run configs/laptop.toml --seed 0 --out runs/control-0 \\
        --stages.0.permute_rewards true --stages.1.permute_rewards true
    python bench/recipe.py runs/seed-0 runs/seed-1 runs/seed-2 --control runs/control-0 --check
"""

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turnsmith.errors import UsageError
from turnsmith.runs.folder import RunFolder, list_differences, read_json
from turnsmith.synthesis.practice.functions import HELDOUT_KINDS, TRAIN_KINDS
from turnsmith.tasks.dataset import load_tasks
from turnsmith.ui.comparison import Comparison
from turnsmith.ui.evaluations import load_evaluation

MIN_RUNS = 3
MIN_TASKS = 100
BASE_RANGE = (0.05, 0.15)
"""Accepted Pass@1 of the base."""
MIN_RATIO = 3.5
"""Ratio of final Pass@1 to the base's (the paper: 3.4)."""
MIN_RL_GAIN = 0.12
"""Difference between final Pass@1 and RFT's (the paper: 0.185)."""
MAX_P = 0.001
COLUMNS = ("run", "base", "RFT", "final", "ratio", "RL − RFT", "p base/RFT", "p RFT/final")


@dataclass(frozen=True)
class Judged:
    """One run on one task set."""

    name: str
    config: dict
    base: dict
    rft: dict
    final: dict
    num_steps: float
    """Optimizer steps of all RL stages."""
    by_rft: Comparison
    """Comparison of base and RFT."""
    by_rl: Comparison
    """Comparison of RFT and the last stage."""

    @property
    def tasks(self) -> set[str]:
        """Return the tasks that all three checkpoints attempted."""
        return {*self.by_rft.tasks} & {*self.by_rl.tasks}

    @property
    def ratio(self) -> float:
        return self.final["pass_at_1"] / self.base["pass_at_1"] if self.base["pass_at_1"] else float("inf")

    @property
    def rl_gain(self) -> float:
        return self.final["pass_at_1"] - self.rft["pass_at_1"]

    def misses(self) -> list[str]:
        """Return the requirements for a run that this run misses."""
        (low, high), rates = BASE_RANGE, [result["pass_at_1"] for result in (self.base, self.rft, self.final)]
        bounds = {
            f"{len(self.tasks)} tasks, not {MIN_TASKS}": len(self.tasks) >= MIN_TASKS,
            f"base {rates[0]:.1%}, not {low:.0%} to {high:.0%}": low <= rates[0] <= high,
            f"final {self.ratio:.2f} x base, not {MIN_RATIO}": self.ratio >= MIN_RATIO,
            "RFT is not between base and final": rates == sorted(set(rates)),
            f"RL gains {self.rl_gain:.1%}, not {MIN_RL_GAIN:.0%}": self.rl_gain >= MIN_RL_GAIN,
            "the difference between base and RFT is not significant": self.by_rft.pairs.p_value < MAX_P,
            "the difference between RFT and final is not significant": self.by_rl.pairs.p_value < MAX_P,
            "its rewards are permuted: pass it with --control": not any(self.permuted),
        }
        return [f"{self.name}: {miss}" for miss, holds in bounds.items() if not holds]

    def control_misses(self, runs: list["Judged"]) -> list[str]:
        """Return the requirements for a control that this run misses."""
        twins = [run for run in runs if run.config["seed"] == self.config["seed"]]
        difference = next(list_differences(twins[0].unpermuted, self.unpermuted), "") if twins else "seed"
        sem = self.final["sem"] or 0.0
        bounds = {
            f"{len(self.tasks)} tasks, not {MIN_TASKS}": len(self.tasks) >= MIN_TASKS,
            "rewards are not permuted in every stage": all(self.permuted),
            f"differs from the runs by {difference}, not by its rewards alone": not difference,
            f"gains {self.rl_gain:.1%} on permuted rewards, not less than one SEM of {sem:.1%}": self.rl_gain < sem,
            "it took no optimizer step": self.num_steps > 0,
        }
        return [f"{self.name}: {miss}" for miss, holds in bounds.items() if not holds]

    @property
    def permuted(self) -> list[bool]:
        return [stage["permute_rewards"] for stage in self.config["stages"]]

    @property
    def unpermuted(self) -> dict:
        """Return the configuration without the permutation of rewards."""
        return self.config | {"stages": [stage | {"permute_rewards": False} for stage in self.config["stages"]]}

    @property
    def row(self) -> list[str]:
        rates = [f"{r['pass_at_1']:.1%} ± {r['sem'] or 0:.1%}" for r in (self.base, self.rft, self.final)]
        p_values = [f"{comparison.pairs.p_value:.1e}" for comparison in (self.by_rft, self.by_rl)]
        gain = f"{self.rl_gain:+.1%} ± {self.by_rl.pairs.error:.1%}"
        return [self.name, *rates, f"{self.ratio:.2f}", gain, *p_values]


def judge(run: Path, task_set: str) -> Judged:
    """Read the evaluations of a finished run. Raises UsageError if one is missing."""
    folder = RunFolder(run)
    config = read_json(folder.config)
    if not config["stages"]:
        raise UsageError(f"{run} has no RL stage: pass runs of the whole recipe")
    names = ("base", "rft", config["stages"][-1]["name"])
    results = [read_json(folder.result(name, task_set)) for name in names]
    base, rft, final = (load_evaluation(folder, name, task_set) for name in names)
    by_rft, by_rl = Comparison(base, rft), Comparison(rft, final)
    return Judged(run.name, config, results[0], results[1], results[2], count_steps(folder, config), by_rft, by_rl)


def count_steps(folder: RunFolder, config: dict) -> float:
    """Count the optimizer steps of all RL stages."""
    files = [
        folder.iteration(stage["name"], i).metrics for stage in config["stages"] for i in range(stage["iterations"])
    ]
    return sum(read_json(file)["optimizer/steps"] for file in files)


def find_misses(runs: list[Judged], controls: list[Judged]) -> list[str]:
    """Return all requirements that the runs and controls miss."""
    others = {
        run.name: next(list_differences(runs[0].config | {"seed": run.config["seed"]}, run.config), "") for run in runs
    }
    seeds = {run.config["seed"] for run in runs}
    return [
        *([f"{len(seeds)} seeds, not {MIN_RUNS}"] if len(seeds) < MIN_RUNS else []),
        *([f"{len(runs)} runs of {len(seeds)} seeds: one run is given twice"] if len(seeds) < len(runs) else []),
        *(["no control"] if not controls else []),
        *(
            f"{name}: differs from {runs[0].name} by {key}, not by its seed alone"
            for name, key in others.items()
            if key
        ),
        *(miss for run in runs for miss in run.misses()),
        *(miss for control in controls for miss in control.control_misses(runs)),
    ]


def print_table(runs: list[Judged]) -> None:
    table = Table(*COLUMNS, title="held-out tasks, Pass@1")
    for run in runs:
        table.add_row(*run.row)
    Console(width=130).print(table)


def print_kinds(run: Path, task_set: str, stages: list[str]) -> None:
    """Print Pass@1 for module kinds of training and for held-out module kinds."""
    tasks = load_tasks(RunFolder(run).task_set(task_set))
    for name, kinds in {"trained": TRAIN_KINDS, "held-out": HELDOUT_KINDS}.items():
        ids = [task.instance_id for task in tasks if task.meta["kind"] in kinds]
        rates = [read_json(RunFolder(run).result(stage, task_set))["per_task"] for stage in stages]
        cells = [f"{statistics.fmean(rate[i] for i in ids if i in rate):.1%}" for rate in rates]
        print(f"| {run.name} | {name} kinds, {len(ids)} tasks | {' | '.join(cells)} |")


def print_markdown(runs: list[Judged]) -> None:
    for row in (COLUMNS, ["---"] * len(COLUMNS), *(run.row for run in runs)):
        print(f"| {' | '.join(row)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--control", nargs="*", type=Path, default=[])
    parser.add_argument("--task-set", default="practice")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a bound is missed")
    parser.add_argument("--markdown", action="store_true", help="print the table of docs/results.md")
    parser.add_argument("--kinds", action="store_true", help="print Pass@1 for training and held-out module kinds")
    arguments = parser.parse_args()
    try:
        runs = [judge(run, arguments.task_set) for run in arguments.runs]
        controls = [judge(run, arguments.task_set) for run in arguments.control]
    except UsageError as error:
        parser.error(str(error))
    (print_markdown if arguments.markdown else print_table)([*runs, *controls])
    for run, judged in zip(arguments.runs if arguments.kinds else [], runs, strict=False):
        print_kinds(run, arguments.task_set, ["base", "rft", *(stage["name"] for stage in judged.config["stages"])])
    misses = find_misses(runs, controls)
    print("", *misses or ["all bounds are met"], sep="\n")
    sys.exit(1 if arguments.check and misses else 0)


if __name__ == "__main__":
    main()
