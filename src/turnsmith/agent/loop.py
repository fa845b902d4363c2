"""Loop of one episode: sample a turn, parse its command, run it, observe, until submission or a limit (paper §3.1).

The dialogue is append-only; turns with a format error stay in the dialogue and count as turns. A failure of sandbox or
engine ends the episode with a stop reason and keeps the turns so far.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from turnsmith.agent.dialogues.base import Dialogue, DialogueFactory
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.base import Session, ToolContext, ToolResult
from turnsmith.chat.parsing import FormatError, parse_turn
from turnsmith.config import AgentConfig
from turnsmith.errors import EngineError, SandboxError, UsageError
from turnsmith.sandboxes.base import Sandbox
from turnsmith.types import StopReason, Task, Trajectory, Turn

NOTHING_RUN = {
    FormatError.NO_COMMAND: "Error: no command could be extracted, so nothing was run.",
    FormatError.MULTIPLE_COMMANDS: "Error: multiple commands were extracted, so nothing was run.",
}
MAX_FORMAT_ERRORS = 3
"""Number of consecutive turns with a format error that end the episode."""
RIGHT_FORMAT = "Write your reasoning, then exactly one block:\n```command\nCOMMAND\n```"


def first_messages(task: Task, scaffold: Scaffold, demonstration: bool = False) -> tuple[str, str]:
    """Return the system message and the user message of the first prompt, with or without the demonstration."""
    return scaffold.system(demonstration), scaffold.issue(task.problem_statement, task.workdir)


def check_fits(
    tasks: Iterable[Task],
    dialogues: DialogueFactory,
    scaffold: Scaffold,
    config: AgentConfig,
    *,
    demonstration: bool = False,
    limit: str = "agent.max_context",
) -> None:
    """Raise UsageError if a first prompt leaves no room in the context for a turn, or if observations have no room for text."""
    for task in tasks:
        if misfit := find_misfit(task, dialogues, scaffold, config, demonstration=demonstration, limit=limit):
            raise UsageError(f"task {task.instance_id}: {misfit}")
    dialogues.check_budget(config.max_observation_tokens)


def find_misfit(
    task: Task, dialogues: DialogueFactory, scaffold: Scaffold, config: AgentConfig, *, demonstration: bool, limit: str
) -> str:
    """Explain why a task's first prompt leaves no room for a turn; return "" if there is room.

    `limit` is the configuration key of the context limit, such as `stages.0.max_context`.
    """
    prompt_tokens = dialogues.count_prompt(*first_messages(task, scaffold, demonstration))
    if prompt_tokens < config.max_context:
        return ""
    return (
        f"the first prompt has {prompt_tokens} tokens, so {prompt_tokens + 1} are needed, and "
        f"{limit} is {config.max_context}: raise {limit}, or use shorter prompts (agent.prompts)"
    )


@dataclass
class Episode:
    """Running episode of one task in a started sandbox."""

    trajectory: Trajectory
    """Trajectory without turns, which has the ids and the random seed of the episode."""
    task: Task
    dialogue: Dialogue
    """Dialogue of the episode, to which `play` adds all messages."""
    sandbox: Sandbox
    scaffold: Scaffold
    config: AgentConfig
    demonstration: bool = False
    on_turn: Callable[[Turn], None] = lambda turn: None
    """Function that is called after each turn and its observation."""
    turns: list[Turn] = field(default_factory=list, init=False)
    num_format_errors: int = field(default=0, init=False)
    """Number of consecutive turns with a format error."""
    command_s: float = field(default=0.0, init=False)
    """Total run time of the agent's commands, in seconds."""

    def __post_init__(self) -> None:
        self.session = Session(self.task.workdir)

    async def play(self) -> Trajectory:
        """Run the episode and return its trajectory, not yet graded. Call it only once."""
        started, patch, detail = time.monotonic(), "", ""
        self.dialogue.begin(*first_messages(self.task, self.scaffold, self.demonstration))
        try:
            stop_reason = await self.to_the_end()
            patch = await self.sandbox.diff()
        except SandboxError as error:
            stop_reason, detail = StopReason.SANDBOX_FAILED, str(error)
        except EngineError as error:
            stop_reason, detail = StopReason.ENGINE_FAILED, str(error)
        finally:
            self.dialogue.close()
        return self.trajectory.grow(
            **self.dialogue.columns(),
            turns=self.turns,
            stop_reason=stop_reason,
            patch=patch,
            isolation=self.sandbox.isolation,
            duration_s=time.monotonic() - started,
            detail=detail,
        )

    async def to_the_end(self) -> StopReason:
        """Run turns until a submission or a limit; return the stop reason. Raises SandboxError, EngineError."""
        while (stop_reason := await self.next_turn()) is None:
            if len(self.turns) == self.config.max_turns:
                return StopReason.MAX_TURNS
            if not self.dialogue.observe(self.turns[-1].observation):
                return StopReason.CONTEXT_FULL
        return stop_reason

    async def next_turn(self) -> StopReason | None:
        """Sample a turn and run its command. Return the stop reason if this turn ends the episode, else None."""
        turn = await self.dialogue.sample()
        self.turns.append(turn)
        if turn.finish_reason == "length" and self.dialogue.is_full:
            return StopReason.CONTEXT_FULL
        result = await self.answer(parse_turn(turn.text))
        if result.submitted:
            return StopReason.SUBMITTED
        if self.num_format_errors >= MAX_FORMAT_ERRORS:
            return StopReason.FORMAT_ERROR
        if self.command_s >= self.config.episode_timeout_s:
            return StopReason.TIMEOUT
        return None

    async def answer(self, parsed: str | FormatError) -> ToolResult:
        """Run a turn's command or explain its format error, and record the observation."""
        started = time.monotonic()
        result = self.explain(parsed) if isinstance(parsed, FormatError) else await self.act(parsed)
        observation = f"{result.text}\n{self.scaffold.prompt_line(result.session)}"
        self.session = result.session
        self.command_s += result.command_s
        self.turns[-1] = self.turns[-1].model_copy(
            update={
                "command": None if isinstance(parsed, FormatError) else parsed,
                "format_error": parsed.value if isinstance(parsed, FormatError) else None,
                "observation": self.dialogue.cut(observation),
                "exit_code": result.exit_code,
                "act_s": time.monotonic() - started,
            }
        )
        self.on_turn(self.turns[-1])
        return result

    async def act(self, command: str) -> ToolResult:
        """Run a command within the episode's remaining time."""
        self.num_format_errors = 0
        time_left_s = self.config.episode_timeout_s - self.command_s
        context = ToolContext(self.sandbox, self.config.window_lines, min(self.config.command_timeout_s, time_left_s))
        return await self.scaffold.act(command, self.session, context)

    def explain(self, error: FormatError) -> ToolResult:
        """Return an observation that explains a turn's format error; run nothing."""
        self.num_format_errors += 1
        was_cut = self.turns[-1].finish_reason == "length"
        cut = f" Your response was cut at {self.config.max_new_tokens} tokens." if was_cut else ""
        return ToolResult(f"{NOTHING_RUN[error]}{cut} {RIGHT_FORMAT}", self.session, exit_code=None)
