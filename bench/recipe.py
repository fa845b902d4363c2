"""The whole recipe, judged: `python bench/recipe.py RUN… [--control RUN…] [--check]` reads finished runs and makes none.

For each run: Pass@1 of base, RFT and the last stage on the held-out practice tasks, paired over tasks. A control is the same run
with rewards permuted among the trajectories of an iteration. Under `--check`, exit code 1 where a bound is missed.

    turnsmith run configs/laptop.toml --seed 0 --out runs/seed-0
    turnsmith run configs/laptop.toml --seed 0 --out runs/control-0 \\
        --stages.0.permute_rewards true --stages.1.permute_rewards true
    python bench/recipe.py runs/seed-0 --control runs/control-0 --check
"""

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from turnsmith.runs import RunFolder
from turnsmith.stats import paired_p_value

MIN_RATIO = 3.5
"""Final Pass@1 over the base's (the paper: 3.4)."""
MIN_RL_GAIN = 0.12
"""Final Pass@1 minus RFT's (the paper: 0.185)."""
MAX_P = 0.001


@dataclass(frozen=True)
class Judged:
    """One run on one task set."""

    name: str
    base: dict
    rft: dict
    final: dict

    @property
    def ratio(self) -> float:
        return self.final["pass_at_1"] / self.base["pass_at_1"] if self.base["pass_at_1"] else float("inf")

    @property
    def rl_gain(self) -> float:
        return self.final["pass_at_1"] - self.rft["pass_at_1"]

    def p_value(self, before: dict, after: dict) -> float:
        """Paired over the tasks that both saw."""
        tasks = sorted(before["per_task"].keys() & after["per_task"].keys())
        return paired_p_value([before["per_task"][t] for t in tasks], [after["per_task"][t] for t in tasks])

    def misses(self) -> list[str]:
        """What a run of the recipe should show and does not."""
        rates = [result["pass_at_1"] for result in (self.base, self.rft, self.final)]
        bounds = {
            f"final {self.ratio:.2f} x base, not {MIN_RATIO}": self.ratio >= MIN_RATIO,
            "RFT is not between base and final": rates == sorted(set(rates)),
            f"RL gains {self.rl_gain:.1%}, not {MIN_RL_GAIN:.0%}": self.rl_gain >= MIN_RL_GAIN,
            "base against RFT is noise": self.p_value(self.base, self.rft) < MAX_P,
            "RFT against final is noise": self.p_value(self.rft, self.final) < MAX_P,
        }
        return [f"{self.name}: {what}" for what, holds in bounds.items() if not holds]

    def control_misses(self) -> list[str]:
        """A control that gains is no control."""
        gains = self.rl_gain >= (self.rft["sem"] or 0.0)
        return [f"{self.name}: gains {self.rl_gain:.1%} on permuted rewards"] if gains else []


def judge(run: Path, task_set: str) -> Judged:
    """Read the evaluations of a finished run."""
    stages = [stage["name"] for stage in json.loads(RunFolder(run).config.read_text())["stages"]]
    names = ("base", "rft", stages[-1])
    return Judged(run.name, *(json.loads(RunFolder(run).result(n, task_set).read_text()) for n in names))


def print_table(runs: list[Judged]) -> None:
    table = Table(
        "run", "base", "RFT", "final", "ratio", "RL − RFT", "p base/RFT", "p RFT/final", title="held-out tasks, Pass@1"
    )
    for run in runs:
        rates = [f"{r['pass_at_1']:.1%} ± {r['sem'] or 0:.1%}" for r in (run.base, run.rft, run.final)]
        p_values = [f"{p:.1e}" for p in (run.p_value(run.base, run.rft), run.p_value(run.rft, run.final))]
        table.add_row(run.name, *rates, f"{run.ratio:.2f}", f"{run.rl_gain:+.1%}", *p_values)
    Console(width=120).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--control", nargs="*", type=Path, default=[])
    parser.add_argument("--task-set", default="practice")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    runs = [judge(run, arguments.task_set) for run in arguments.runs]
    controls = [judge(run, arguments.task_set) for run in arguments.control]
    print_table([*runs, *controls])
    misses = [miss for run in runs for miss in run.misses()] + [miss for c in controls for miss in c.control_misses()]
    print("\n".join(misses) or "every bound is met")
    sys.exit(1 if arguments.check and misses else 0)


if __name__ == "__main__":
    main()
