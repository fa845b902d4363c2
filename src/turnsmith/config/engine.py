"""Section `[engine]`: sampling in process, on vLLM servers, or behind an API."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from turnsmith.config.section import PathKey, Section

ADDRESS = r"^https?://[^@?#\s]+$"
"""Pattern of a server address; it cannot contain a password or a key."""


class PricesConfig(Section):
    """Prices of an endpoint per million tokens, in any one currency."""

    input: float = Field(ge=0)
    """Price of a million prompt tokens."""
    cached_input: float | None = Field(None, ge=0)
    """Price of a million prompt tokens that the server read from its cache; the price of `input` if absent."""
    output: float = Field(ge=0)
    """Price of a million sampled tokens, including hidden reasoning."""


class EndpointConfig(Section):
    """Model behind the address of an OpenAI-compatible server (docs/endpoint.md)."""

    address: str = Field(pattern=ADDRESS)
    """Base URL, such as `http://localhost:8000/v1`; it must not contain a secret."""
    model: str = Field(min_length=1)
    """Name of the model on the server."""
    key_variable: str = Field("", pattern=r"^([A-Za-z_][A-Za-z0-9_]*)?$")
    """Name of the environment variable that holds the API key; empty if the server needs no key."""
    requests_per_minute: float | None = Field(None, gt=0)
    """Maximum number of requests started per minute; unlimited if absent."""
    max_tokens_key: str = Field("max_tokens", min_length=1)
    """Name of the request parameter that limits a turn; newer OpenAI models need `max_completion_tokens`."""
    leave_out: list[str] = []
    """Request parameters that are not sent because the server refuses them, such as `seed` or `top_p`."""
    extra_body: dict[str, Any] = {}
    """Additional request parameters, such as `{ top_k = -1 }`; they override others and are stored in the run folder."""
    prices: PricesConfig | None = None
    """Prices for the cost account; only tokens are counted if absent."""
    budget: float | None = Field(None, gt=0)
    """Cost at which the run stops; requests under way are still paid, and `resume` with a higher budget continues."""

    @model_validator(mode="after")
    def _budget_needs_prices(self) -> "EndpointConfig":
        if self.budget is not None and self.prices is None:
            raise ValueError("budget needs prices: set prices.input and prices.output, per million tokens")
        return self


class VllmConfig(Section):
    """vLLM servers in a separate Python environment (docs/vllm.md)."""

    python: Annotated[str | None, PathKey()] = None
    """Path of a Python interpreter with vLLM, which the run uses to start servers; the servers end with the run."""
    address: str | None = None
    """Address of a running server on this machine, instead of `python`; it must accept weights from Turnsmith."""
    replicas: int = Field(1, ge=1)
    """Number of servers to start; all turns of an episode go to one server."""
    eager: bool = True
    """Run the model without compilation. If false, vLLM compiles it at start: a minute on a CPU, but faster sampling."""
    check_held: bool = True
    """Compare vLLM's weights with the trainer's after each update. Set to false if vLLM stores equal weights differently."""
    backend: Literal["gloo", "nccl"] = "gloo"
    """Transfer of weights: `gloo` through host memory; `nccl` between GPUs, which trainer and servers must not share."""
    arguments: list[str] = []
    """Additional arguments of `vllm serve`, such as `--gpu-memory-utilization=0.5`."""


class EngineConfig(Section):
    """Sampler of the policy."""

    kind: str = "inprocess"
    """Engine: `inprocess` (shares a `local` trainer's weights), `vllm`, `openai`, or an import path (`my_module:my_open`)."""
    options: Annotated[dict[str, Any], PathKey()] = {}
    """Options of the engine, if it has any (docs/extending.md)."""
    kv_memory_gb: float | None = Field(None, gt=0)
    """GiB of the KV cache (per GPU with `placement`). If absent: enough for all episodes, but at most half of the free memory."""
    placement: Literal["own", "shared"] | None = None
    """Place of vLLM servers on the cluster of a trainer with ranks: GPUs of their own, or those of the ranks; if absent, here."""
    vllm: VllmConfig = VllmConfig()
    """Settings of `kind = "vllm"`."""
    openai: EndpointConfig | None = None
    """Settings of `kind = "openai"`; the server's model can be evaluated but not trained."""

    @model_validator(mode="after")
    def _has_one_vllm(self) -> "EngineConfig":
        if self.kind == "vllm" and bool(self.vllm.python) == bool(self.vllm.address):
            raise ValueError("the kind vllm needs either vllm.python, an interpreter with vLLM, or vllm.address")
        if self.vllm.address and self.vllm.replicas > 1:
            raise ValueError("vllm.replicas above 1 needs vllm.python: vllm.address is the address of one server")
        return self

    @model_validator(mode="after")
    def _is_placeable(self) -> "EngineConfig":
        if self.placement and not (self.kind == "vllm" and self.vllm.python and self.kv_memory_gb):
            raise ValueError(
                "placement starts vLLM servers on a cluster: set kind = vllm, vllm.python, and kv_memory_gb, the GiB of the KV "
                "cache on each GPU of a server"
            )
        if self.placement == "shared" and self.vllm.backend == "nccl":
            raise ValueError(
                "placement shared cannot use vllm.backend nccl, which connects different GPUs, and CUDA IPC is not "
                "implemented: set vllm.backend = gloo"
            )
        return self
