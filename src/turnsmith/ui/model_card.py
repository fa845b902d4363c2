"""Model card of a policy: recipe, data and results, read from the run folder."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from turnsmith.config import COLD_START, RFT, TRAIN, RunConfig, TaskSetConfig
from turnsmith.recipes.checkpoints import Checkpoint
from turnsmith.runs.folder import RunFolder, read_json
from turnsmith.ui.comparison import Comparison, describe_p
from turnsmith.ui.evaluations import load_evaluation
from turnsmith.ui.reading import list_evaluations, read_results, read_tasks
from turnsmith.ui.tables import lacks_isolation, list_remarks, result_cells, result_headings
from turnsmith.ui.terminal import to_line

RECIPE_COLUMNS = {
    "iterations": "iterations",
    "trajectories": "rollouts/collected",
    "trained on": "samples/trained",
    "optimizer steps": "optimizer/steps",
}
"""Heading of a column in the recipe's table → metric, which is summed over the iterations of a stage."""
STAGE_KEYS = ("algorithm", "group_size", "tasks_per_iteration", "batch_size", "max_turns", "max_context")
COLD_START_KEYS = ("epochs", "batch_size", "max_context", "conversations")
RFT_KEYS = ("rollouts_per_task", "epochs", "batch_size", "max_turns", "max_context", "conversations")
KEYS = {COLD_START: COLD_START_KEYS, RFT: RFT_KEYS}
"""Part of the recipe → keys that the card shows; other parts are stages."""
CHAT_KEYS = ("template", "system_prompt")
AGENT_KEYS = ("scaffold", "prompts", "tools", "max_turns", "max_context", "max_new_tokens")


def write_card(config: RunConfig, folder: RunFolder, checkpoint: Checkpoint, facts: Mapping[str, str]) -> str:
    """Write README.md for the Hugging Face hub: a YAML header, then sections. `facts` describe the exported files."""
    stages = list_stages_up_to(config, checkpoint)
    results = [result for result in read_results(folder) if result["stage"] in ("base", *stages, checkpoint.name)]
    header = yaml.safe_dump(head(folder, checkpoint, results), sort_keys=False, allow_unicode=True)
    parts = [
        introduce(config, folder, checkpoint),
        *recipe_part(config, folder, stages, checkpoint),
        *data_part(config, folder),
        *results_part(folder, checkpoint, results),
        *isolation_part(config, results),
        "## Files",
        to_list(facts),
    ]
    return f"---\n{header}---\n\n" + "\n\n".join(parts) + "\n"


def list_stages_up_to(config: RunConfig, checkpoint: Checkpoint) -> list[str]:
    """List the stages up to that of the checkpoint, in order."""
    stages = [*config.training]
    return stages[: stages.index(checkpoint.stage) + 1]


def head(folder: RunFolder, checkpoint: Checkpoint, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the model card's YAML header, as the Hugging Face hub defines it."""
    own = [result for result in results if result["stage"] == checkpoint.name]
    model = {"name": folder.path.resolve().name, "results": [to_index(result) for result in own]}
    return {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["turnsmith", "software-engineering", "reinforcement-learning"],
        **({"model-index": [model]} if own else {}),
    }


def to_index(result: dict[str, Any]) -> dict[str, Any]:
    """Convert an evaluation to an entry of the `model-index` of the Hugging Face hub."""
    values = {"pass@1": result["pass_at_1"], "sem": result["sem"], f"pass@{result['k']}": result["pass_at_k"]}
    metrics = [{"type": name, "value": value, "name": name} for name, value in values.items() if value is not None]
    dataset = {"name": result["task_set"], "type": result["task_set"]}
    return {"task": {"type": "text-generation"}, "dataset": dataset, "metrics": metrics}


def introduce(config: RunConfig, folder: RunFolder, checkpoint: Checkpoint) -> str:
    iterations = f"{checkpoint.num_done} {'iteration' if checkpoint.num_done == 1 else 'iterations'}"
    return (
        f"# {to_cell(folder.path.resolve().name)}\n\n"
        f"A multi-turn software-engineering policy: `{to_cell(Path(config.model.path).name)}`, trained by Turnsmith, "
        f"after {iterations} of `{checkpoint.stage}`."
    )


def recipe_part(config: RunConfig, folder: RunFolder, stages: Sequence[str], checkpoint: Checkpoint) -> Iterator[str]:
    """Write the model card's section on the recipe: counts and settings of each stage."""
    yield "## Recipe"
    yield to_table(["stage", *RECIPE_COLUMNS], (count_stage(folder, name, checkpoint) for name in stages))
    for name in stages:
        yield f"`{name}`: {list_settings(config.training[name], KEYS.get(name, STAGE_KEYS))}"
    yield f"The agent: {list_settings(config.agent, AGENT_KEYS)}; seed {config.seed}"
    yield f"The chat: {list_settings(config.model.chat, CHAT_KEYS)}"
    if any(stage.permute_rewards for stage in config.stages if stage.name in stages):
        yield "**A negative control: the rewards were permuted.**"


def count_stage(folder: RunFolder, stage: str, checkpoint: Checkpoint) -> list[object]:
    """Return the row of a stage in the recipe's table: sums over its iterations up to the checkpoint."""
    num_done = checkpoint.num_done if stage == checkpoint.stage else folder.next_iteration(stage)
    metrics = [read_json(folder.iteration(stage, number).metrics) for number in range(num_done)]
    counts = [{"iterations": 1, **count_imitated(each), **each} for each in metrics]
    return [stage, *(f"{sum(each.get(key, 0) for each in counts):g}" for key in RECIPE_COLUMNS.values())]


def count_imitated(metrics: Mapping[str, float]) -> dict[str, float]:
    """Count the trajectories of an imitation, which were collected by the run or read as conversations."""
    kept = metrics.get("rollouts/kept", metrics.get("conversations/kept", 0))
    return {"samples/trained": kept, "rollouts/collected": metrics.get("conversations/read", 0)}


def list_settings(section: Any, keys: Sequence[str]) -> str:
    """Format those `keys` of a section that have a value, and its learning rate if any: `algorithm dapo, group_size 6, …`."""
    pairs = [(key, getattr(section, key)) for key in keys]
    if hasattr(section, "optimizer"):
        pairs.append(("learning_rate", section.optimizer.learning_rate))
    return ", ".join(f"{key} {to_cell(name_value(value))}" for key, value in pairs if value not in (None, [], ""))


def name_value(value: object) -> object:
    """Shorten a path to its last part, which does not depend on the machine; return other values unchanged."""
    return Path(value).name if isinstance(value, str) else value


def data_part(config: RunConfig, folder: RunFolder) -> Iterator[str]:
    """Write the model card's section on data: task sets and their numbers of tasks, and imitated conversations."""
    yield "## Data"
    used = config.task_sets if config.collects else config.eval_tasks
    rows = [[name, *describe_set(name, source, folder)] for name, source in used.items()]
    yield to_table(["task set", "used for", "tasks from", "number"], [*rows, *list_conversations(config, folder)])


def list_conversations(config: RunConfig, folder: RunFolder) -> Iterator[list[object]]:
    """Yield a row of the data table for each part that imitates conversations."""
    for part in (COLD_START, RFT):
        source, metrics = getattr(config.training.get(part), "conversations", None), folder.iteration(part, 0).metrics
        if source and metrics.exists():
            kept = f"{read_json(metrics).get('conversations/kept', 0):g}"
            yield ["conversations", f"training ({part})", name_value(source), kept]


def describe_set(name: str, source: TaskSetConfig, folder: RunFolder) -> list[object]:
    """Return the row of a task set: use, origin and number of tasks (`no longer readable` without the file of the tasks)."""
    origin = (
        f"practice repositories ({source.split})"
        if source.practice_tasks
        else name_value(source.package or source.path)
    )
    num = len(read_tasks(folder, name))
    return ["training" if name == TRAIN else "evaluation", origin, num or "no longer readable"]


def results_part(folder: RunFolder, checkpoint: Checkpoint, results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the model card's section on results, with the gain over the base model and its interval."""
    yield "## Results"
    if not results:
        yield "This checkpoint was not evaluated."
        return
    yield to_table(result_headings(results), map(result_cells, results))
    yield from map(to_cell, chain.from_iterable(map(list_remarks, results)))
    done = list_evaluations(folder)
    for name in [task_set for stage, task_set in done if stage == checkpoint.name and ("base", task_set) in done]:
        base, trained = (load_evaluation(folder, stage, name) for stage in ("base", checkpoint.name))
        gain = Comparison(base, trained)
        if gain.tasks:
            yield f"Gain over the base on `{name}`: {describe_gain(gain)}"


def describe_gain(comparison: Comparison) -> str:
    """Describe the gain over the base: mean difference over tasks, 95 % interval, p-value and verdict."""
    pairs = comparison.pairs
    ends = pairs.interval and " to ".join(f"{100 * end:+.1f}" for end in pairs.interval)
    interval = f"95 % interval {ends}" if ends else "no interval, since the change is equal on all tasks"
    return f"{100 * pairs.mean:+.1f} points, {interval}, p {describe_p(pairs)}: {comparison.verdict}."


def isolation_part(config: RunConfig, results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Write the model card's section on the isolation of sandboxes."""
    yield "## Isolation"
    tiers = sorted({result["isolation"] for result in results if result["isolation"]})
    yield f"Sandboxes of kind `{config.sandbox.kind}`; isolation obtained: {', '.join(tiers) or 'not measured'}."
    if any(map(lacks_isolation, results)):
        yield "**Neither agents nor tests were isolated, so a patch may have cheated.**"


def to_list(facts: Mapping[str, str]) -> str:
    """Format names and values as a Markdown list."""
    return "\n".join(f"- {to_cell(name)} {to_cell(value)}" for name, value in facts.items())


def to_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Format rows as a Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(map(to_cell, line)) + " |" for line in lines)


def to_cell(value: object) -> str:
    """Format a value as a cell of a Markdown table: on one line, with `|` escaped."""
    return to_line(str(value)).replace("|", "\\|")
