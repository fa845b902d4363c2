"""One episode: observe, sample, parse, act, until submit or a limit (paper §3.1).

The whole history is kept and only grows. Turns with a format error stay in it and count as turns. What goes wrong is data: an
episode that the sandbox or the engine ends keeps everything up to there, and its stop reason says so.
"""

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from turnsmith.agent.history import History
from turnsmith.agent.scaffolds.base import Scaffold
from turnsmith.agent.tools.base import Session, ToolContext, ToolResult
from turnsmith.chat.parsing import FormatError, parse_turn
from turnsmith.chat.renderer import ChatRenderer
from turnsmith.chat.truncation import check_budget, truncate
from turnsmith.config import AgentConfig
from turnsmith.engines.base import Engine, GenerateRequest
from turnsmith.errors import EngineError, SandboxError, UsageError
from turnsmith.sandboxes.base import Sandbox
from turnsmith.types import SamplingParams, StopReason, Task, Trajectory, Turn

NOTHING_RUN = {
    FormatError.NO_COMMAND: "Error: no command could be extracted, so nothing was run.",
    FormatError.MULTIPLE_COMMANDS: "Error: multiple commands were extracted, so nothing was run.",
}
RIGHT_FORMAT = "Write your reasoning, then exactly one block:\n```command\nCOMMAND\n```"


def first_prompt(task: Task, renderer: ChatRenderer, scaffold: Scaffold, demonstration: bool = False) -> list[int]:
    """Token ids up to the first turn. Fine-tuning puts the one without the demonstration before what was collected with it."""
    return renderer.prompt_ids(scaffold.system(demonstration), scaffold.issue(task.problem_statement, task.workdir))


def check_fits(
    tasks: Iterable[Task],
    renderer: ChatRenderer,
    scaffold: Scaffold,
    config: AgentConfig,
    *,
    demonstration: bool = False,
    limit: str = "agent.max_context",
) -> None:
    """Raise UsageError for limits under which some task could get no turn, or show no observation; to be asked before any plays.

    `limit` is the key that `config.max_context` came from, such as `stages.0.max_context`.
    """
    for task in tasks:
        prompt_tokens = len(first_prompt(task, renderer, scaffold, demonstration))
        if prompt_tokens >= config.max_context:
            raise UsageError(
                f"task {task.instance_id}: the first prompt has {prompt_tokens} tokens, so {prompt_tokens + 1} are needed, and "
                f"{limit} is {config.max_context}: raise {limit}, or use shorter prompts (agent.prompts)"
            )
    check_budget(config.max_observation_tokens, renderer.tokenizer)


@dataclass
class Episode:
    """A trajectory that has only just begun, in a sandbox that is ready, under limits that it fits (`check_fits`)."""

    trajectory: Trajectory
    """Its record as it began."""
    task: Task
    engine: Engine
    sandbox: Sandbox
    renderer: ChatRenderer
    scaffold: Scaffold
    config: AgentConfig
    demonstration: bool = False
    decoding: SamplingParams | None = None
    """How an evaluation samples; None where the policy itself is sampled, as all must be that trains."""
    history: History = field(default_factory=History, init=False)
    turns: list[Turn] = field(default_factory=list, init=False)
    num_format_errors: int = field(default=0, init=False)
    """Format errors in a row."""
    command_s: float = field(default=0.0, init=False)
    """Seconds that the agent's commands have taken together."""

    def __post_init__(self) -> None:
        self.session = Session(self.task.workdir)

    async def play(self) -> Trajectory:
        """The trajectory with all but its verdict; an episode is played once."""
        started, patch, detail = time.monotonic(), "", ""
        prompt = first_prompt(self.task, self.renderer, self.scaffold, self.demonstration)
        self.history.add_given(prompt)
        try:
            stop_reason = await self.to_the_end()
            patch = await self.sandbox.diff()
        except SandboxError as error:
            stop_reason, detail = StopReason.SANDBOX_FAILED, str(error)
        except EngineError as error:
            stop_reason, detail = StopReason.ENGINE_FAILED, str(error)
        finally:
            self.engine.release(self.trajectory.trajectory_id)
        return self.trajectory.grow(
            **vars(self.history),
            turns=self.turns,
            stop_reason=stop_reason,
            prompt_tokens=len(prompt),
            patch=patch,
            isolation=self.sandbox.isolation,
            duration_s=time.monotonic() - started,
            detail=detail,
        )

    async def to_the_end(self) -> StopReason:
        """Turn after turn until submit or a limit. Raises SandboxError and EngineError."""
        while (stop_reason := await self.next_turn()) is None:
            if len(self.turns) == self.config.max_turns:
                return StopReason.MAX_TURNS
            if not self.observe():
                return StopReason.CONTEXT_FULL
        return stop_reason

    async def next_turn(self) -> StopReason | None:
        """Sample, parse, act. The stop reason where the episode ends with this turn."""
        turn = await self.sample()
        if turn.finish_reason == "length" and self.room == 0:
            return StopReason.CONTEXT_FULL
        result = await self.answer(parse_turn(turn.text))
        if result.submitted:
            return StopReason.SUBMITTED
        if self.num_format_errors >= self.config.max_format_errors:
            return StopReason.FORMAT_ERROR
        if self.command_s >= self.config.episode_timeout_s:
            return StopReason.TIMEOUT
        return None

    async def sample(self) -> Turn:
        """Sample a turn from the policy and write it down."""
        started, start = time.monotonic(), len(self.history)
        completion = await self.engine.generate(self.request())
        self.history.add_sampled(completion)
        turn = Turn(
            start=start,
            end=len(self.history),
            text=self.renderer.turn_text(completion.token_ids.tolist()),
            finish_reason=completion.finish_reason,
            policy_version=completion.policy_version,
            digest=completion.digest,
            generate_s=time.monotonic() - started,
        )
        self.turns.append(turn)
        return turn

    def request(self) -> GenerateRequest:
        """The next turn, sampled from the policy itself, temperature 1 and no filters, unless an evaluation says otherwise."""
        return GenerateRequest(
            episode_id=self.trajectory.trajectory_id,
            token_ids=self.history.token_ids,
            max_new_tokens=min(self.config.max_new_tokens, self.room),
            stop_token_ids=self.renderer.stop_token_ids,
            seed=turn_seed(self.trajectory.seed, len(self.turns)),
            params=self.decoding or SamplingParams(),
            trains=self.decoding is None,
        )

    async def answer(self, parsed: str | FormatError) -> ToolResult:
        """Run the command, or explain the format error, and write down what answered."""
        started = time.monotonic()
        result = self.explain(parsed) if isinstance(parsed, FormatError) else await self.act(parsed)
        observation = f"{result.text}\n{self.scaffold.prompt_line(result.session)}"
        self.session = result.session
        self.command_s += result.command_s
        self.turns[-1] = self.turns[-1].model_copy(
            update={
                "command": None if isinstance(parsed, FormatError) else parsed,
                "format_error": parsed.value if isinstance(parsed, FormatError) else None,
                "observation": truncate(observation, self.config.max_observation_tokens, self.renderer.tokenizer),
                "exit_code": result.exit_code,
                "act_s": time.monotonic() - started,
            }
        )
        return result

    async def act(self, command: str) -> ToolResult:
        """Run the command within what is left of the episode's time."""
        self.num_format_errors = 0
        time_left_s = self.config.episode_timeout_s - self.command_s
        context = ToolContext(self.sandbox, self.config.window_lines, min(self.config.command_timeout_s, time_left_s))
        return await self.scaffold.act(command, self.session, context)

    def explain(self, error: FormatError) -> ToolResult:
        """Tell the agent what was wrong and what is right; nothing is run."""
        self.num_format_errors += 1
        was_cut = self.turns[-1].finish_reason == "length"
        cut = f" Your response was cut at {self.config.max_new_tokens} tokens." if was_cut else ""
        return ToolResult(f"{NOTHING_RUN[error]}{cut} {RIGHT_FORMAT}", self.session, exit_code=None)

    def observe(self) -> bool:
        """Add the last observation to the history; False, and nothing added, where no turn would fit after it."""
        token_ids = self.renderer.observation_ids(self.turns[-1].observation, after=int(self.history.token_ids[-1]))
        if len(token_ids) >= self.room:
            return False
        self.history.add_given(token_ids)
        return True

    @property
    def room(self) -> int:
        """Tokens that still fit into the context."""
        return self.config.max_context - len(self.history)


def turn_seed(seed: int, turn: int) -> int:
    """Seed of one turn's noise, from the seed of the episode; 63 bits."""
    digest = hashlib.sha256(f"{seed}/{turn}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
