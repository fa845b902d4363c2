"""Demonstrations: resolved episodes of an expert that knows the gold patch, as conversations to imitate.

The folder holds `demonstrations.json` with the settings, `trajectories.jsonl` with all episodes, and `conversations.jsonl`
with those that the tests resolve. A repeated call continues with the episodes that are missing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from turnsmith.agent.expert.dialogues import ExpertDialogues
from turnsmith.agent.expert.expert import Habits, SolvedTask
from turnsmith.agent.scaffolds.base import Scaffold, load_scaffold
from turnsmith.config import RunConfig
from turnsmith.errors import UsageError
from turnsmith.git.patch_policy import PatchRefused, read_patch
from turnsmith.grading.cases import APPLY, APPLY_TIMEOUT_S
from turnsmith.grading.grading import Grader
from turnsmith.io.files import write_file
from turnsmith.recipes.imitation import to_conversation
from turnsmith.rollouts.generator import Generator
from turnsmith.rollouts.rollout import plan_rollouts
from turnsmith.runs.folder import hold, list_differences, read_json, write_json
from turnsmith.runs.new_folders import refuse_taken
from turnsmith.sandboxes.base import Sandbox, SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import set_up
from turnsmith.tasks.sets.trajectories import FILE_NAME
from turnsmith.tasks.task_set import TaskSet
from turnsmith.tracking import Progress
from turnsmith.tracking.loops import for_each
from turnsmith.types import OUTCOMES, Conversation, TaskTree, Trajectory

SETTINGS, JOURNAL = "demonstrations.json", "trajectories.jsonl"
ORIGIN = "turnsmith tasks demonstrate"
LIST_FILES = "git ls-files -z -- '*.py'"


@dataclass(frozen=True)
class DemonstrationSpec:
    """Settings of demonstrations."""

    config: RunConfig
    """Configuration of which the agent, the sandboxes and the rollouts are used."""
    num_each: int = 1
    """Number of episodes of each task."""
    seed: int = 0
    habits: Habits = field(default_factory=Habits)

    def describe(self) -> dict[str, object]:
        """Return the settings on which the demonstrations depend, for JSON."""
        agent = self.config.agent.model_dump(mode="json")
        return {"agent": agent, "num_each": self.num_each, "seed": self.seed, "habits": asdict(self.habits)}


@dataclass(frozen=True)
class Demonstrations:
    """Episodes of an expert, and the conversations made of the resolved ones."""

    conversations: list[Conversation]
    endings: Counter[str]
    """Ending of an episode → number of episodes."""


async def demonstrate(
    tasks: TaskSet, spec: DemonstrationSpec, out: Path, provider: SandboxProvider, progress: Progress
) -> Demonstrations:
    """Play the missing episodes, and write all resolved ones to `out`. Raises UsageError if the tests resolve none."""
    config, agent = spec.config, spec.config.agent
    scaffold = load_scaffold(agent.scaffold, agent.prompts, agent.tools)
    refuse_unable(scaffold)
    open_folder(out, spec)
    with (out / SETTINGS).open("rb") as file:
        hold(file)
        solutions = await read_solutions(tasks, provider, progress)
        grader = Grader(
            provider, tests_timeout_s=config.rollouts.tests_timeout_s, num_workers=config.rollouts.grading_workers
        )
        dialogues = ExpertDialogues(solutions, scaffold, spec.habits)
        generator = Generator(dialogues, provider, grader, scaffold, config.rollouts, progress)
        trajectories = await generator.collect(
            plan_rollouts(
                [tree for tree in tasks.list_trees() if tree.instance_id in solutions],
                prefix="expert",
                iteration=0,
                num_each=spec.num_each,
                seed_stream=f"{spec.seed}/expert",
            ),
            agent,
            out / JOURNAL,
            label="demonstrating",
        )
        return write_conversations(out, trajectories)


def refuse_unable(scaffold: Scaffold) -> None:
    """Raise UsageError if the expert cannot end an episode with the scaffold's tools."""
    if all(tool.name != "submit" for tool in scaffold.tools):
        raise UsageError(
            "the scaffold has no tool `submit`, by which the expert ends an episode: add it to agent.tools"
        )


def open_folder(out: Path, spec: DemonstrationSpec) -> None:
    """Create the folder, or accept one with the same settings. Raises UsageError."""
    if not (out / SETTINGS).exists():
        refuse_taken(out)
        try:
            write_json(out / SETTINGS, spec.describe())
        except OSError as error:
            raise UsageError(f"cannot create {out} ({error.strerror}): give another --out") from None
    elif key := next(list_differences(read_json(out / SETTINGS), spec.describe()), ""):
        raise UsageError(f"{out} holds demonstrations of other settings (its {key} differs): give another --out")


async def read_solutions(tasks: TaskSet, provider: SandboxProvider, progress: Progress) -> Mapping[str, SolvedTask]:
    """Read the files of each task before and after its gold patch; leave out tasks without one that the expert can play."""

    async def read(tree: TaskTree) -> SolvedTask | str:
        try:
            return await read_solution(tree, provider)
        except (PatchRefused, UnicodeDecodeError, FileNotFoundError, UsageError) as error:
            return f"{tree.instance_id}: no demonstration: {error}"

    found = await for_each(tasks.list_trees(), read, progress, "reading tasks", num_workers=2)
    for remark in found:
        if isinstance(remark, str):
            progress.log(remark)
    solutions = {each.task.instance_id: each for each in found if isinstance(each, SolvedTask)}
    if not solutions:
        raise UsageError(f"none of {len(tasks.tasks)} tasks has a gold patch of text files: give others")
    return solutions


async def read_solution(tree: TaskTree, provider: SandboxProvider) -> SolvedTask:
    """Read a task's files in a new sandbox, before and after its gold patch. Raises UsageError, SandboxError."""
    changed = sorted({path for part in read_patch(tree.task.patch) for path in part.paths})
    if not changed:
        raise UsageError("the task has no gold patch")
    async with started(provider, SandboxSpec.of(tree)) as sandbox:
        await set_up(sandbox, tree)
        listed = await sandbox.exec(LIST_FILES, timeout_s=APPLY_TIMEOUT_S)
        paths = {path for path in listed.output.decode().split("\0") if path}
        files = {
            path: text for path in sorted({*paths, *changed}) if (text := await read_file(sandbox, path)) is not None
        }
        applied = await sandbox.exec(APPLY, timeout_s=APPLY_TIMEOUT_S, stdin=tree.task.patch.encode())
        if applied.exit_code:
            raise UsageError("the gold patch does not apply")
        # The expert reads Python alone. Without its changes of other files the tests decide as ever.
        played = [path for path in changed if path.endswith(".py") or path not in files]
        return SolvedTask(tree.task, files, {path: await read_file(sandbox, path) for path in played})


async def read_file(sandbox: Sandbox, path: str) -> str | None:
    """Read a text file of a sandbox, or return None if it does not exist. Raises UnicodeDecodeError."""
    try:
        return (await sandbox.read(path)).decode()
    except FileNotFoundError:
        return None


def write_conversations(out: Path, trajectories: list[Trajectory]) -> Demonstrations:
    """Write the resolved episodes as conversations. Raises UsageError if there are none."""
    conversations = [
        to_conversation(each, ORIGIN, resolved=True) for each in trajectories if each.resolved and not is_cut(each)
    ]
    endings = Counter(describe_ending(each) for each in trajectories)
    if not conversations:
        counts = ", ".join(f"{number} {ending}" for ending, number in endings.most_common())
        raise UsageError(
            f"none of {len(trajectories)} demonstrations is resolved within the agent's limits ({counts}): raise "
            "agent.max_turns, max_context, max_new_tokens or window_lines, or give other tasks"
        )
    write_file(out / FILE_NAME, "".join(f"{each.model_dump_json()}\n" for each in conversations))
    return Demonstrations(conversations, endings)


def is_cut(trajectory: Trajectory) -> bool:
    """Return True if a turn is longer than `agent.max_new_tokens`, so that a model could not write it."""
    return any(turn.finish_reason == "length" for turn in trajectory.turns)


def describe_ending(trajectory: Trajectory) -> str:
    """Describe the ending of an episode: its outcome, and for an unresolved one its stop reason."""
    if trajectory.resolved and is_cut(trajectory):
        return "resolved, cut at agent.max_new_tokens"
    outcome = str(trajectory.outcome)
    return (
        outcome
        if trajectory.resolved or not OUTCOMES[trajectory.outcome].in_evaluation
        else f"{outcome}, {trajectory.stop_reason}"
    )
