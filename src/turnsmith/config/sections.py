"""Every knob, its default and one sentence.

A knob that nothing reads is a bug. Defaults are the paper's where the paper states one (arXiv 2508.03501, App. C, Table 3).
"""

import datetime
import re
from collections import Counter
from functools import partial
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from turnsmith.config.names import check_name
from turnsmith.types import Isolation, SamplingParams

TRAIN = "train"
"""Name of the training set's folder."""
NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]*"
"""What may name a stage or a task set: a folder that hides nothing and leads nowhere."""
ADDRESS = r"^https?://[^@?#\s]+$"
"""Of a server: no password and no key in it."""

AlgorithmName = Annotated[str, AfterValidator(partial(check_name, "algorithm"))]
ScaffoldName = Annotated[str, AfterValidator(partial(check_name, "scaffold"))]
ToolName = Annotated[str, AfterValidator(partial(check_name, "tool"))]
EngineName = Annotated[str, AfterValidator(partial(check_name, "engine"))]
TrainerName = Annotated[str, AfterValidator(partial(check_name, "trainer"))]
TrackerName = Annotated[str, AfterValidator(partial(check_name, "tracker"))]


class Section(BaseModel):
    """A block of knobs; unknown keys fail."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ChatConfig(Section):
    template: str = "as-shipped"
    """`as-shipped`, refused where it rewrites earlier turns; `keep-turns`, with every turn kept as it was sampled; or a file."""
    system_prompt: Literal["system-message", "first-user-message"] = "system-message"
    """Where the system prompt stands; at the head of the first user message for templates without a system role."""
    date: datetime.date = datetime.date(2024, 7, 26)
    """What a template takes for today: always the same day, so that a run has one prompt whenever it is resumed."""


class ModelConfig(Section):
    path: str = "tiny"
    """Hugging Face model directory, or `tiny` for the base policy that ships with the package."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Number format that the layers compute in; weights, optimizer and the head stay in float32."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Where the model computes; `auto` takes CUDA where there is some."""
    threads: int = Field(0, ge=0)
    """Torch threads of this process; 0 leaves torch's own choice."""
    chat: ChatConfig = ChatConfig()
    """How its chat template is used."""


class PricesConfig(Section):
    """What an endpoint costs, for a million tokens, in any one currency."""

    input: float = Field(ge=0)
    """Of tokens that it reads."""
    cached_input: float | None = Field(None, ge=0)
    """Of those that it read from its cache; as others where absent."""
    output: float = Field(ge=0)
    """Of tokens that it samples, those of hidden reasoning included."""


class EndpointConfig(Section):
    """A model behind the address of any OpenAI-compatible server (docs/endpoint.md)."""

    address: str = Field(pattern=ADDRESS)
    """Base URL, as `http://localhost:8000/v1`; nothing secret stands in it."""
    model: str = Field(min_length=1)
    """Its name there."""
    key_variable: str = Field("", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    """Name of the environment variable that holds the key, never the key itself; none where the server wants none."""
    concurrency: int = Field(16, ge=1)
    """Requests under way at once."""
    requests_per_minute: float | None = Field(None, gt=0)
    """Requests are begun no faster than this; absent: no limit."""
    retries: int = Field(6, ge=0)
    """Times that a request is tried again after a fault that may pass: 429, 5xx, a cut connection, an empty answer."""
    first_wait_s: float = Field(1.0, ge=0)
    """Seconds before the second try; they double with each, unless the server says how long (`Retry-After`)."""
    max_wait_s: float = Field(60.0, ge=0)
    """Most seconds between two tries, whatever the server says."""
    timeout_s: float = Field(600.0, gt=0)
    """Seconds that one answer may take."""
    max_tokens_key: str = Field("max_tokens", min_length=1)
    """What the server calls the limit of a turn; newer models of OpenAI want `max_completion_tokens`."""
    leave_out: list[str] = []
    """Parameters that this server refuses, such as `seed` or `top_p`, and that are not sent."""
    extra_body: dict[str, Any] = {}
    """More for the body of each request, such as `{ top_k = -1 }`; over what is sent otherwise, and kept in the run folder."""
    prices: PricesConfig | None = None
    """For the cost account; without them tokens alone are counted."""
    budget: float | None = Field(None, gt=0)
    """Cost at which the run stops, to be resumed with more; what is under way is still paid."""

    @model_validator(mode="after")
    def _budget_needs_prices(self) -> "EndpointConfig":
        if self.budget is not None and self.prices is None:
            raise ValueError("budget needs prices: give input and output, for a million tokens")
        return self


class VllmConfig(Section):
    """Servers of vLLM, in an environment of their own (docs/vllm.md)."""

    python: str | None = None
    """Interpreter of an environment that has vLLM: servers are started by it, and end with the run."""
    address: str | None = None
    """Address of a server on this machine that runs already, in place of `python`; it must take weights from here."""
    replicas: int = Field(1, ge=1)
    """Servers to start; an episode stays with one."""
    eager: bool = True
    """Compute layer by layer; false compiles the layers first: a minute on a CPU, and somewhat faster then."""
    check_held: bool = True
    """Compare what the layers hold after each update, not only what arrived; false for models that vLLM lays out otherwise."""
    restarts: int = Field(3, ge=0)
    """Times in a run that a server which dies is started again, before its turns fail."""
    start_timeout_s: float = Field(900.0, gt=0)
    """Seconds that a server may take to start."""
    turn_timeout_s: float = Field(600.0, gt=0)
    """Seconds that a turn may take before its server counts as dead."""
    arguments: list[str] = []
    """More arguments of `vllm serve`, such as `--gpu-memory-utilization=0.5`."""


class EngineConfig(Section):
    kind: EngineName = "inprocess"
    """What samples: `inprocess`, with a `local` trainer's weights, `vllm`, `openai`, or an import path, `my_module:my_open`."""
    kv_memory_gb: float | None = Field(None, gt=0)
    """GiB for keys and values of episodes; absent: as much as all need at once, up to half of what is left."""
    vllm: VllmConfig = VllmConfig()
    """Servers of the kind `vllm`."""
    openai: EndpointConfig | None = None
    """The server of the kind `openai`: messages in, text out; it is evaluated, and nothing here trains it."""

    @model_validator(mode="after")
    def _has_an_address(self) -> "EngineConfig":
        if self.kind == "openai" and self.openai is None:
            raise ValueError("openai.address and openai.model are missing: give those of the server")
        return self

    @model_validator(mode="after")
    def _vllm_is_somewhere(self) -> "EngineConfig":
        if self.kind == "vllm" and bool(self.vllm.python) == bool(self.vllm.address):
            raise ValueError("the kind vllm needs vllm.python, an interpreter that has it, or vllm.address, not both")
        if self.vllm.address and self.vllm.replicas > 1:
            raise ValueError("vllm.replicas are started by vllm.python: a server that runs already is one")
        return self


class TrainerConfig(Section):
    kind: TrainerName = "local"
    """What trains: `local`, in this process, or an import path as `my_module:open_trainer`."""
    activation_checkpointing: bool = False
    """Keep only the input of each layer for the backward pass and compute the rest again: less memory, a third more work."""


class TaskSetConfig(Section):
    """Where tasks come from: exactly one of `path`, `practice_tasks` or `package`."""

    path: str | None = None
    """JSONL file of tasks, or the folder that holds `tasks.jsonl`."""
    subset: str | None = None
    """Of a path: `verified-50`, the paper's 50 tasks of SWE-bench Verified, or a text file with one id per line."""
    tasks: list[str] = []
    """Of a path, or of its subset: the tasks of these ids; all where there are none."""
    limit: int | None = Field(None, ge=1)
    """The first N only of those that the other keys leave."""
    practice_tasks: int = Field(0, ge=0)
    """Number of tasks to make from generated practice repositories."""
    split: Literal["train", "heldout"] = "train"
    """Practice only: `heldout` draws from other seeds and also from kinds of module that `train` never uses."""
    difficulty: float = Field(0.3, ge=0.0, le=1.0)
    """Practice only: from short functions and telling issues (0) to long ones and silent issues (1)."""
    seed: int | None = None
    """Seed of the making; that of the run where absent."""
    package: str | None = None
    """Real package to put bugs into: `name==version` from the package index, or the path of a local git checkout."""
    package_tasks: int = Field(12, ge=1)
    """Package only: number of tasks to make."""

    @model_validator(mode="after")
    def _one_source(self) -> "TaskSetConfig":
        if [bool(self.path), bool(self.practice_tasks), bool(self.package)].count(True) != 1:
            raise ValueError("give exactly one of path, practice_tasks, package; null or 0 takes one back")
        for key in ("subset", "tasks"):
            if getattr(self, key) and not self.path:
                raise ValueError(f"{key} goes with path: what is made here has no ids yet")
        return self


class AgentConfig(Section):
    scaffold: ScaffoldName = "paper"
    """Tools and prompts: `paper` (nine tools), `bash` (the shell alone), or an import path (docs/extending.md)."""
    tools: list[ToolName] = []
    """More tools than the scaffold has: names, such as `search_file`, or import paths."""
    prompts: str | None = None
    """Folder of prompt templates in place of the scaffold's own: `paper`, `brief` (for tiny models), `bash`, or a path."""
    max_turns: int = Field(40, ge=1)
    """T_max: turns after which the episode ends."""
    max_context: int = Field(65_536, ge=64)
    """Tokens of a whole trajectory."""
    max_new_tokens: int = Field(4_096, ge=1)
    """Tokens that one turn may sample."""
    window_lines: int = Field(100, ge=2)
    """Lines that the file window shows."""
    max_observation_tokens: int = Field(8_000, ge=16)
    """Tokens of one observation; the middle is cut and the cut stated."""
    command_timeout_s: float = Field(60.0, gt=0)
    """Seconds that one command may take."""
    episode_timeout_s: float = Field(1_800.0, gt=0)
    """Seconds that the agent's commands may take together."""
    max_format_errors: int = Field(3, ge=1)
    """Malformed turns in a row that end the episode."""
    grade_unsubmitted: bool = True
    """Grade what lies in the workspace where the episode ended without `submit`; the paper is silent."""


class SandboxConfig(Section):
    kind: Literal["local", "podman", "subprocess"] = "local"
    """`local` isolates by namespaces and overlayfs; `podman` by containers of images; `subprocess` not at all."""
    image: str = ""
    """Image for tasks that name none: its name, or the path of a root file system, a folder or a tar file (podman only)."""
    container_engine: str = ""
    """Program that is called in place of `podman`, such as a script with options of its own."""
    min_isolation: Isolation = Isolation.CONTAINER_ROOT
    """Weakest tier at which RFT and RL may learn, since they find every hole there is; evaluation takes any."""
    memory_mb: int = Field(1_024, ge=32)
    """Memory of one sandbox."""
    max_processes: int = Field(128, ge=4)
    """Processes and threads of one sandbox."""
    disk_mb: int = Field(512, ge=1)
    """Size of the throw-away workspace layer."""
    max_output_bytes: int = Field(1_000_000, ge=1_000)
    """Output of one command beyond this is dropped."""
    hidden: list[str] = ["/usr/lib/python3/dist-packages", "/usr/share/python-wheels", "/usr/lib/google-cloud-sdk"]
    """Folders of this machine that `local` sandboxes show empty, since they hold other copies of what tasks are about."""
    test_plugins: list[str] = []
    """Installed plugins of pytest that tasks ask for by `-p`, such as `pytest-asyncio`; without them there are none to load."""

    @model_validator(mode="after")
    def _podman_only(self) -> "SandboxConfig":
        if self.kind != "podman" and (self.image or self.container_engine):
            raise ValueError("image and container_engine are for the kind podman")
        return self


class RolloutConfig(Section):
    concurrency: int = Field(64, ge=1)
    """Episodes that run at once."""
    retries: int = Field(2, ge=0)
    """Times that a rollout is tried again after a failure of the infrastructure."""
    max_infrastructure_share: float = Field(0.2, ge=0, le=1)
    """Share of rollouts lost to the infrastructure in one iteration that stops the run."""
    grading_workers: int = Field(2, ge=1)
    """Gradings that run at once."""
    tests_timeout_s: float = Field(1_800.0, gt=0)
    """Seconds that the tests of one patch may take; less where the time of the gold patch is known (docs/grading.md)."""


class AuditConfig(Section):
    when: Literal["off", "suspicious", "all"] = "suspicious"
    """Which patches that resolve a task are audited before RFT and RL pay for them; an evaluation audits none."""
    rate: float = Field(0.05, ge=0, le=1)
    """Share of patches that are not suspicious and are audited all the same; 1 from a conviction until an iteration is clean."""


class OptimizerConfig(Section):
    learning_rate: float = Field(1e-6, gt=0)
    """Peak learning rate of AdamW."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """First-moment decay."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """Second-moment decay."""
    eps: float = Field(1e-8, gt=0)
    """Term added to the denominator."""
    weight_decay: float = Field(0.1, ge=0)
    """Decoupled weight decay."""
    grad_clip: float = Field(1.0, gt=0)
    """Bound on the global norm of the gradient."""
    warmup_steps: int = Field(0, ge=0)
    """Steps of linear warm-up."""
    schedule: Literal["constant", "cosine"] = "constant"
    """Shape of the learning rate after warm-up; cosine goes to zero. RL knows no last step: there it is constant."""
    max_tokens_per_micro_batch: int = Field(65_536, ge=64)
    """Tokens of one forward and backward pass; a longer sample is a pass of its own."""


class RFTOptimizerConfig(OptimizerConfig):
    """The same knobs with the paper's numbers for RFT: what a file leaves out keeps them."""

    learning_rate: float = Field(5e-6, gt=0)
    """Peak learning rate of AdamW."""
    warmup_steps: int = Field(10, ge=0)
    """Steps of linear warm-up."""
    schedule: Literal["constant", "cosine"] = "cosine"
    """Shape of the learning rate after warm-up; cosine goes to zero."""


class RFTConfig(Section):
    rollouts_per_task: int = Field(10, ge=1)
    """Rollouts of each task from the base (paper: 10)."""
    epochs: int = Field(1, ge=1)
    """Passes over the kept trajectories (paper: 1)."""
    batch_size: int = Field(64, ge=1)
    """What `batch_unit` counts, per optimizer step (paper: 64)."""
    batch_unit: Literal["trajectories", "sequences"] = "trajectories"
    """Unit of `batch_size`: trajectories, or sequences that they are packed into, of `optimizer.max_tokens_per_micro_batch`."""
    submitted_only: bool = False
    """Keep only what the agent submitted, and not what a limit cut off with the task resolved."""
    conversations: str | None = None
    """Imitate these in place of collecting: `turnsmith tasks import nebius-swe-agent`, or the folder of an endpoint's run."""
    demonstration: bool = True
    """Show the base a one-shot demonstration while it collects; never shown in training (paper §3.3)."""
    mask_format_errors: bool = True
    """Leave turns with a format error out of the loss (paper App. C)."""
    max_turns: int = Field(40, ge=1)
    """T_max while collecting."""
    max_context: int = Field(65_536, ge=64)
    """Context while collecting."""
    optimizer: RFTOptimizerConfig = RFTOptimizerConfig()
    """Optimizer of the fine-tuning."""


class StageConfig(Section):
    """One stage of RL: paper Table 3."""

    name: str = "stage1"
    """Name of the stage in the run folder and in the results."""
    iterations: int = Field(50, ge=1)
    """Iterations of collect, train, sync; with `plateau` the most that there are."""
    plateau: int = Field(0, ge=0)
    """End the stage where so many evaluations (`eval.every`), or else iterations, brought no better rate of solving; 0: never."""
    tasks_per_iteration: int = Field(300, ge=1)
    """Problems of one iteration."""
    group_size: int = Field(10, ge=2)
    """G: complete trajectories per problem."""
    batch_size: int = Field(128, ge=1)
    """What `batch_unit` counts, per optimizer step."""
    batch_unit: Literal["trajectories", "sequences"] = "trajectories"
    """Unit of `batch_size`: trajectories, or sequences that they are packed into, of `optimizer.max_tokens_per_micro_batch`."""
    algorithm: AlgorithmName = "dapo"
    """How rewards become a loss: `cispo`, `dapo`, `dr_grpo`, `grpo`, `gspo`, `rloo`, or an import path (docs/extending.md)."""
    algorithm_options: dict[str, Any] = {}
    """Options that only this algorithm has, such as `beta` of `grpo`; keys of the stage are written beside it."""
    clip_eps_low: float = Field(0.2, gt=0)
    """The ratio of a token is clipped below at 1 − this (`dapo`; the others have their own, symmetric or of sequences)."""
    clip_eps_high: float = Field(0.3, gt=0)
    """The ratio of a token is clipped above at 1 + this (`dapo`)."""
    max_turns: int = Field(40, ge=1)
    """T_max of the stage."""
    max_context: int = Field(65_536, ge=64)
    """Context of the stage in tokens."""
    length_threshold: int = Field(10, ge=1)
    """L_thr: turns from which the length penalty grows."""
    zero_advantage: Literal["final", "resolved"] = "resolved"
    """Drop a group whose R_final are all equal (`final`, the literal reading), or whose tests agree (`resolved`)."""
    advantage_std: Literal["population", "sample"] = "population"
    """Standard deviation of the group normalisation; the paper does not say which."""
    old_logprobs: Literal["trainer", "engine"] = "trainer"
    """Whose log-probs are π_old; the paper does not say."""
    is_cap: float | None = Field(None, ge=1)
    """Weigh each token's loss by min(π_old of the trainer / π of the engine, this): truncated importance sampling; absent: 1."""
    denominator: Literal["batch", "group"] = "batch"
    """Action tokens that the loss divides by: of the optimizer batch, or of each group in it (after Eq. 8; `dapo`)."""
    curriculum: bool = False
    """Start by dropping tasks never solved and tasks solved at 2/3 or more in the stage before (paper §4.3)."""
    curriculum_from: str | None = None
    """Take the solve rates of another run instead: its folder and stage, as `runs/first:stage1`."""
    permute_rewards: bool = False
    """Negative control: shuffle rewards and verdicts among the trajectories of an iteration. Never for a real run.

    Groups are chosen by what was dealt. The journal, and with it the curriculum of a stage after, keeps the true verdicts.
    """
    max_silent_iterations: int = Field(3, ge=1)
    """Iterations in a row without a group that carries signal after which the run stops."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer of the stage."""

    @model_validator(mode="after")
    def _fits_together(self) -> "StageConfig":
        if self.length_threshold >= self.max_turns:
            raise ValueError(f"length_threshold {self.length_threshold} must be below max_turns {self.max_turns}")
        if self.is_cap and self.old_logprobs == "engine":
            raise ValueError("is_cap weighs the trainer's log-probs by the engine's: it needs old_logprobs = trainer")
        if self.curriculum_from and not self.curriculum:
            raise ValueError("curriculum_from needs curriculum = true")
        if self.optimizer.schedule != "constant":
            raise ValueError("optimizer.schedule must be constant in RL: how many steps signal allows is not known")
        return self


class EvalConfig(Section):
    num_runs: int = Field(10, ge=1)
    """Runs per task (paper: 10)."""
    k: int = Field(10, ge=1)
    """k of the unbiased pass@k; at most `num_runs`."""
    seed: int | None = None
    """Seed of the sampling noise of evaluation, the same for every checkpoint; that of the run where absent."""
    every: int = Field(0, ge=0)
    """Iterations of a stage after which it is evaluated on the way, again and again; 0: only at its end."""
    sets: list[str] = []
    """Names of the `eval_tasks` that are evaluated on the way; none named: all."""
    sampling: SamplingParams = SamplingParams()
    """Decoding of evaluations; left alone it is the policy itself, as in training, which takes no other."""

    @model_validator(mode="after")
    def _k_within_runs(self) -> "EvalConfig":
        if self.k > self.num_runs:
            raise ValueError(f"k {self.k} must be at most num_runs {self.num_runs}")
        return self


class RunsConfig(Section):
    keep_checkpoints: int = Field(2, ge=0)
    """Checkpoints of each stage that stay, the latest; 0 keeps all."""


ROUNDING_GAP = {"float32": 1e-4, "bfloat16": 2e-2}
"""Mean gap of log-probs that two programs can have which compute the same, by `model.dtype`; measured ones: docs/mismatch.md."""


class GapConfig(Section):
    """Is the sampler the policy? Bounds on what the engine says (mean absolute gap of log-probs) and on what it samples."""

    warn: float | None = Field(None, gt=0)
    """Warn above this; absent: above what rounding in `model.dtype` explains, 1e-4 in float32 and 2e-2 in bfloat16."""
    stop: float = Field(1.0, gt=0)
    """Stop the run above this."""
    filter_tokens: int = Field(8_192, ge=0)
    """Sampled tokens of an iteration, of trajectories drawn at random, that are weighed: mean −log p beside the policy's entropy,
    likelihood under other settings beside that under the policy; 0: none."""
    filter_false_alarms: float = Field(1e-4, gt=0, lt=1)
    """Share of honest iterations, in the long run, that may warn because a temperature or filter makes the tokens likelier."""
    filter_warn: float = Field(0.05, gt=0)
    """Warn where −log p is off the entropy by surely more than this share of it: a filter or a temperature is at work."""
    filter_stop: float = Field(0.25, gt=0)
    """Stop the run above this share."""


class RunConfig(Section):
    """The whole run."""

    seed: int = 0
    """Seed of everything that is drawn: tasks, noise, order."""
    model: ModelConfig = ModelConfig()
    """The base policy."""
    engine: EngineConfig = EngineConfig()
    """What samples from the policy."""
    trainer: TrainerConfig = TrainerConfig()
    """What changes it."""
    train_tasks: TaskSetConfig | None = None
    """Tasks that RFT and RL learn from; an evaluation needs none."""
    require_qualified: bool = True
    """Refuse to train on tasks that `turnsmith tasks qualify` has not examined, and leave out what it found unfit.

    A run qualifies tasks that it makes from a package itself, and needs no record of practice tasks that it makes.
    """
    eval_tasks: dict[str, TaskSetConfig] = {}
    """Named task sets that every checkpoint is evaluated on; never trained on."""
    agent: AgentConfig = AgentConfig()
    """The scaffold."""
    sandbox: SandboxConfig = SandboxConfig()
    """Where agents and tests run."""
    rollouts: RolloutConfig = RolloutConfig()
    """How episodes are scheduled."""
    audit: AuditConfig = AuditConfig()
    """Which rewards are looked into for lies."""
    rft: RFTConfig | None = None
    """Rejection fine-tuning; absent means none."""
    stages: list[StageConfig] = []
    """Stages of RL, in order."""
    eval: EvalConfig = EvalConfig()
    """Evaluation after each stage."""
    logprob_gap: GapConfig = GapConfig()
    """Bounds on sampler against trainer."""
    runs: RunsConfig = RunsConfig()
    """What stays in the run folder."""
    tracking: list[TrackerName] = []
    """Where metrics and results are sent: `tensorboard`, `wandb`, `mlflow`, or an import path as `my_module:MyTracker`."""

    @model_validator(mode="after")
    def _names_are_folders(self) -> "RunConfig":
        stages = Counter(["base", "rft", *(stage.name for stage in self.stages)])
        twice = [name for name, count in stages.items() if count > 1]
        if twice:
            raise ValueError(f"two stages are called {twice[0]!r}: give each stage a name of its own")
        if TRAIN in self.eval_tasks:
            raise ValueError(f"eval_tasks.{TRAIN} would share the folder of the training tasks: give it another name")
        wrong = [name for name in [*stages, *self.eval_tasks] if not re.fullmatch(NAME, name)]
        if wrong:
            raise ValueError(f"{wrong[0]!r} cannot name a folder: use letters, digits, dots, dashes, underscores")
        return self

    @model_validator(mode="after")
    def _evaluation_is_held_out(self) -> "RunConfig":
        train = self.train_tasks
        if not train:
            if self.rft or self.stages:
                raise ValueError("train_tasks is missing: RFT and RL need tasks to learn from")
            return self
        if train.split == "heldout":
            raise ValueError("train_tasks.split is heldout: those tasks are for evaluation, train on another split")
        for name, tasks in self.eval_tasks.items():
            is_same_split = train.practice_tasks and tasks.practice_tasks and tasks.split == train.split
            if is_same_split and self.seed_of(tasks) == self.seed_of(train):
                raise ValueError(
                    f"eval_tasks.{name} would be the training tasks: give it split = heldout, or another seed"
                )
        return self

    @model_validator(mode="after")
    def _nothing_is_missing(self) -> "RunConfig":
        for name in self.eval.sets:
            if name not in self.eval_tasks:
                raise ValueError(f"eval.sets names {name!r}: there is {', '.join(self.eval_tasks) or 'no eval_tasks'}")
        if self.eval.every and not self.eval_tasks and any(stage.plateau for stage in self.stages):
            raise ValueError("stages.plateau with eval.every needs eval_tasks: give a set, or set eval.every = 0")
        made = [name for name, tasks in self.task_sets.items() if not tasks.path]
        if self.sandbox.kind == "podman" and made and not self.sandbox.image:
            raise ValueError(
                f"sandbox.image is missing: the tasks that will be made for {made[0]} name no image of their own; "
                "give the name of one, or the path of a root file system"
            )
        if self.stages and self.stages[0].curriculum and not self.stages[0].curriculum_from:
            raise ValueError(
                "stages.0.curriculum needs the solve rates of a stage before: name one of another run in curriculum_from, "
                "or remove it"
            )
        return self

    @property
    def task_sets(self) -> dict[str, TaskSetConfig]:
        """All task sets by the names of their folders, the training set first."""
        return ({TRAIN: self.train_tasks} if self.train_tasks else {}) | self.eval_tasks

    @property
    def warn_gap(self) -> float:
        """Mean gap of log-probs above which the run warns."""
        return self.logprob_gap.warn or ROUNDING_GAP[self.model.dtype]

    def seed_of(self, section: TaskSetConfig | EvalConfig) -> int:
        """The seed of a section, or else that of the run."""
        return self.seed if section.seed is None else section.seed
