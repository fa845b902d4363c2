"""Section `[cluster]`: machines of a run that uses several processes."""

from pydantic import Field

from turnsmith.config.section import Section


class ClusterConfig(Section):
    """Ray cluster for the trainer's ranks."""

    address: str = Field("", pattern=r"^$|^[^:/\s]+:\d+$")
    """Address `HOST:PORT` of a running Ray cluster; if empty, a Ray of this machine starts and ends with the run."""
    gpu_memory_gb: float | None = Field(None, gt=0)
    """GiB of one GPU. A run that needs more is refused, and `--dry-run` needs no GPU to say so; not checked if absent."""
