"""Sections `[trainer]`, `[cold_start]`, `[rft]` and `[[stages]]`: trainer, imitation of conversations, RFT and RL."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from turnsmith.config.section import PathKey, Section

COLD_START, RFT = "cold_start", "rft"
"""Names of the stages of cold start and RFT in the run folder and in results."""
RFT_OPTIMIZER = {"learning_rate": 5e-6, "warmup_steps": 10}
"""Defaults of `[rft.optimizer]` and `[cold_start.optimizer]` that differ from those of RL (paper App. C)."""


Moments = Literal["float32", "bfloat16", "8bit", "host"]
"""Forms of AdamW's two moments."""


class TrainerConfig(Section):
    """Trainer of the policy."""

    kind: str = "local"
    """Trainer: `local` (in this process), `fsdp` (on ranks: docs/cluster.md), or an import path (`my_module:open_trainer`)."""
    options: Annotated[dict[str, Any], PathKey()] = {}
    """Options of the trainer, if it has any (docs/extending.md)."""
    activation_checkpointing: Literal["none", "full", "selective"] = "none"
    """Activations to recompute in the backward pass: none, all but layer inputs, or all but these and attention outputs."""
    share_prefixes: bool = False
    """Compute the tokens with which samples of a group start once per micro-batch, with the same loss and gradients."""
    offload_activations: bool = False
    """Keep the layer inputs of activation checkpointing in host memory between forward and backward pass."""
    mlp_tiles: int = Field(1, ge=1)
    """Number of tiles in which the tokens of a micro-batch pass each MLP; the backward pass recomputes them. 1 is off."""
    num_ranks: int = Field(1, ge=1)
    """Number of processes of `fsdp`, one per GPU, over which model and optimizer are sharded."""
    cp: int = Field(1, ge=1)
    """Number of ranks that share each packed sequence (context parallelism); it divides `num_ranks`."""
    dp_replicate: int = Field(1, ge=1)
    """Number of copies of the sharded model; 1 shards it over all ranks."""
    cp_kind: Literal["ulysses", "gather"] = "ulysses"
    """Attention of context parallelism: exchange tokens for heads, or gather keys and values of all ranks."""
    moments: Moments = "float32"
    """Form of AdamW's moments: `float32`, `bfloat16`, `8bit` (needs torchao), or `host` (float32 in host memory)."""

    @model_validator(mode="after")
    def _fits_together(self) -> "TrainerConfig":
        if self.offload_activations and self.activation_checkpointing == "none":
            raise ValueError("offload_activations needs activation_checkpointing = full or selective")
        names = ("num_ranks", "cp", "dp_replicate", "cp_kind")
        given = [name for name in names if getattr(self, name) != type(self).model_fields[name].default]
        if self.kind == "local" and given:
            raise ValueError(f"{given[0]} needs ranks: set kind = fsdp")
        return self


class OptimizerConfig(Section):
    """AdamW and its micro-batches; the learning rate follows a cosine to zero in RFT and is constant in RL."""

    learning_rate: float = Field(1e-6, gt=0)
    """Peak learning rate of AdamW; 5e-6 by default in RFT."""
    beta1: float = Field(0.9, ge=0, lt=1)
    """Decay rate of the first moment."""
    beta2: float = Field(0.999, ge=0, lt=1)
    """Decay rate of the second moment."""
    weight_decay: float = Field(0.1, ge=0)
    """Decoupled weight decay."""
    grad_clip: float = Field(1.0, gt=0)
    """Largest global norm of the gradient."""
    warmup_steps: int = Field(0, ge=0)
    """Steps of linear warm-up; 10 by default in RFT."""
    max_tokens_per_micro_batch: int = Field(65_536, ge=64)
    """Maximum tokens of one forward and backward pass; a longer sample gets a pass of its own."""


class ImitationConfig(Section):
    """Fine-tuning on given or collected trajectories: the common keys of `[cold_start]` and `[rft]`."""

    iterations: ClassVar[int] = 1
    """Number of iterations, which is not a key."""
    epochs: int = Field(1, ge=1)
    """Passes over the trajectories (paper: 1)."""
    batch_size: int = Field(64, ge=1)
    """Batch size of an optimizer step, in `batch_unit` (paper: 64)."""
    batch_unit: Literal["trajectories", "sequences"] = "trajectories"
    """Unit of `batch_size`: trajectories, or packed sequences of `optimizer.max_tokens_per_micro_batch` tokens."""
    max_context: int = Field(65_536, ge=64)
    """Longest trajectory to collect or imitate, in tokens; longer conversations are left out."""
    save_minutes: float = Field(10.0, ge=0)
    """Minutes after which the training is saved, at the end of a step, so that a resumed run continues there."""
    optimizer: OptimizerConfig = OptimizerConfig(**RFT_OPTIMIZER)
    """Optimizer of the part."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in_optimizer(cls, data: Any) -> Any:
        """Use the defaults in `RFT_OPTIMIZER` for keys that the section `optimizer` leaves out."""
        if isinstance(data, dict) and isinstance(data.get("optimizer"), dict):
            return data | {"optimizer": RFT_OPTIMIZER | data["optimizer"]}
        return data


class ColdStartConfig(ImitationConfig):
    """Imitation of given conversations before all other training, for a base model that cannot act yet."""

    conversations: Annotated[str, PathKey()]
    """Conversations to imitate: output of `tasks demonstrate` or `tasks import`, or a run folder with `engine.kind` `openai`."""


class RFTConfig(ImitationConfig):
    """Rejection fine-tuning."""

    rollouts_per_task: int = Field(10, ge=1)
    """Rollouts of each task from the base policy (paper: 10)."""
    conversations: Annotated[str | None, PathKey()] = None
    """Conversations to imitate instead of own rollouts, as in `[cold_start]`."""
    demonstration: bool = True
    """Show the base policy a demonstration in its rollouts; the prompts used in training omit it (paper §3.3)."""
    max_turns: int = Field(40, ge=1)
    """Number of turns after which a rollout of the base policy ends (T_max in the paper)."""


class StageConfig(Section):
    """Stage of RL (paper Table 3)."""

    name: str = "stage1"
    """Name of the stage in the run folder and in the results."""
    iterations: int = Field(50, ge=1)
    """Iterations of sampling, training and weight update; the maximum if `plateau` is set."""
    plateau: int = Field(0, ge=0)
    """End the stage after this many evaluations (iterations if `eval.every` is 0) without improvement; 0 never ends it early."""
    tasks_per_iteration: int = Field(300, ge=1)
    """Tasks of one iteration."""
    group_size: int = Field(10, ge=2)
    """Number of trajectories per task (G in the paper)."""
    batch_size: int = Field(128, ge=1)
    """Batch size of an optimizer step, in `batch_unit`."""
    batch_unit: Literal["trajectories", "sequences"] = "trajectories"
    """Unit of `batch_size`: trajectories, or packed sequences of `optimizer.max_tokens_per_micro_batch` tokens."""
    algorithm: str = "dapo"
    """Advantage and loss: `cispo`, `dapo`, `dr_grpo`, `grpo`, `gspo`, `rloo`, or an import path (docs/extending.md)."""
    algorithm_options: Annotated[dict[str, Any], PathKey()] = {}
    """Options of the algorithm that are not keys of a stage, e.g. `max_weight` of `cispo`."""
    clip_eps_low: float = Field(0.2, gt=0)
    """Lower clipping distance ε_low: importance ratios are clipped at 1 − ε_low (`dapo`; others have options of their own)."""
    clip_eps_high: float = Field(0.3, gt=0)
    """Upper clipping distance ε_high: importance ratios are clipped at 1 + ε_high (`dapo`)."""
    max_turns: int = Field(40, ge=1)
    """Number of turns after which an episode of the stage ends (T_max in the paper)."""
    max_context: int = Field(65_536, ge=64)
    """Largest trajectory of the stage, in tokens."""
    length_threshold: int = Field(10, ge=1)
    """Number of turns above which the length penalty grows (L_thr in the paper). At `max_turns` there is no penalty."""
    zero_advantage: Literal["final", "resolved"] = "resolved"
    """Drop a group if all final rewards are equal (`final`, as the paper says), or if all test verdicts are (`resolved`)."""
    old_logprobs: Literal["trainer", "engine"] = "trainer"
    """Source of π_old, the log-probs under the policy at the start of an iteration: the trainer's or the engine's.

    The engine's save a forward pass; the trainer then computes its own for a random part of the tokens, as a check.
    """
    is_cap: float | None = Field(None, ge=1)
    """Cap of truncated importance sampling, which weights token losses by min(π_old / π_sampler, cap); off if absent."""
    denominator: Literal["batch", "group"] = "batch"
    """Divisor of `dapo`'s loss: sampled tokens of the batch, or of each group with equal weight per group (closer to Eq. 8)."""
    curriculum: bool = False
    """Drop tasks whose solve rate in the previous stage is 0, or at least 2/3 (paper §4.3)."""
    curriculum_from: Annotated[str | None, PathKey()] = None
    """Run and stage whose solve rates the curriculum uses instead of the previous stage's, such as `runs/first:stage1`."""
    permute_rewards: bool = False
    """Negative control: shuffle rewards and verdicts among the trajectories of an iteration. Never use it in a real run.

    Whether a group is dropped depends on the shuffled verdicts. The journal and later curricula keep the true verdicts.
    """
    max_silent_iterations: int = Field(3, ge=1)
    """Stop the run after this many consecutive iterations in which `zero_advantage` dropped all groups."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer of the stage."""

    @model_validator(mode="after")
    def _fits_together(self) -> "StageConfig":
        if self.length_threshold > self.max_turns:
            raise ValueError(f"length_threshold {self.length_threshold} must be at most max_turns {self.max_turns}")
        if self.is_cap and self.old_logprobs == "engine":
            raise ValueError("is_cap compares the trainer's log-probs with the engine's: set old_logprobs = trainer")
        if self.curriculum_from and not self.curriculum:
            raise ValueError("curriculum_from needs curriculum = true")
        return self
