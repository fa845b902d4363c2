"""Arrangement of ranks: replicas, shards and context parallelism."""

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import TYPE_CHECKING, Literal

from turnsmith.errors import UsageError

# Only the type checker imports torch here: layouts are checked without its slow import.
if TYPE_CHECKING:
    import torch
    from torch.distributed import ProcessGroup
    from torch.distributed.device_mesh import DeviceMesh

CpKind = Literal["ulysses", "gather"]
"""Kind of context parallelism.

`ulysses` exchanges tokens for heads around attention; `gather` collects the keys and values of all ranks.
"""


@dataclass(frozen=True)
class RankLayout:
    """Numbers of ranks: `num_ranks = dp_replicate × dp_shard × cp`. Raises UsageError if they do not divide.

    Example: 16 ranks with `cp=4` and `dp_replicate=2` have `dp_shard=2`. Four packed rows are computed at once, each by four
    ranks. Each of two replicas of the model is sharded over eight ranks.
    """

    num_ranks: int = 1
    """Number of ranks."""
    cp: int = 1
    """Number of ranks that share each packed row (context parallelism)."""
    dp_replicate: int = 1
    """Number of replicas of the sharded model (HSDP); 1 shards it over all ranks."""
    cp_kind: CpKind = "ulysses"
    """Attention of context parallelism."""

    def __post_init__(self) -> None:
        if min(self.num_ranks, self.cp, self.dp_replicate) < 1:
            raise UsageError("trainer.num_ranks, cp and dp_replicate must be at least 1")
        if self.num_ranks % (self.cp * self.dp_replicate):
            raise UsageError(
                f"trainer.cp {self.cp} × dp_replicate {self.dp_replicate} does not divide num_ranks {self.num_ranks}: "
                "change one of them"
            )

    @property
    def dp(self) -> int:
        """Number of packed rows that the ranks compute at once."""
        return self.num_ranks // self.cp

    @property
    def dp_shard(self) -> int:
        """Number of rows that one replica of the model computes at once."""
        return self.dp // self.dp_replicate

    @property
    def cuts_attention(self) -> bool:
        """True if each rank computes the attention of a part of a row, not of a part of the heads."""
        return self.cp > 1 and self.cp_kind == "gather"

    @property
    def row_multiple(self) -> int:
        """Number of equal pieces into which a packed row is cut: one per rank, or two for `gather`."""
        return 2 * self.cp if self.cuts_attention else self.cp

    def fit_size(self, num_places: int) -> int | None:
        """Return the largest number of ranks, at most `num_places`, that `cp` divides; None if there is none."""
        return num_places // self.cp * self.cp or None

    def resize(self, num_ranks: int) -> "RankLayout":
        """Return the layout of another number of ranks, with the same `cp` and as many replicas as still divide the ranks."""
        return replace(self, num_ranks=num_ranks, dp_replicate=gcd(self.dp_replicate, num_ranks // self.cp))

    def check_heads(self, num_heads: int, num_key_heads: int) -> None:
        """Raise UsageError if Ulysses cannot divide the attention heads of a model among the ranks of a row."""
        if self.cp_kind == "ulysses" and num_heads % lcm(self.cp, num_key_heads):
            raise UsageError(
                f"trainer.cp {self.cp} does not divide the model's {num_heads} attention heads ({num_key_heads} of keys): "
                "choose another cp, or cp_kind = gather"
            )


@dataclass(frozen=True, eq=False)
class Mesh:
    """Place of this rank in the layout, and its process groups."""

    layout: RankLayout
    device: "torch.device"
    shards: "DeviceMesh"
    """Mesh over which FSDP shards the model: one dimension, or replicas × shards."""
    dp_rank: int
    """Index of this rank's row among those computed at once."""
    cp_rank: int
    """Index of this rank among those that share its row."""
    cp_group: "ProcessGroup"
    """Ranks that share a row."""


def open_mesh(layout: RankLayout, device: "torch.device") -> Mesh:
    """Build the mesh of this rank. All ranks of the default process group call it. Raises UsageError for another size."""
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    if distributed.get_world_size() != layout.num_ranks:
        raise UsageError(f"trainer.num_ranks is {layout.num_ranks}, and {distributed.get_world_size()} ranks run")
    rows = init_device_mesh(device.type, (layout.dp, layout.cp), mesh_dim_names=("dp", "cp"))
    shape = layout.dp_replicate, layout.num_ranks // layout.dp_replicate
    shards = init_device_mesh(device.type, shape, mesh_dim_names=("replicate", "shard"))
    if layout.dp_replicate == 1:
        shards = shards["shard"]
    return Mesh(layout, device, shards, rows.get_local_rank("dp"), rows.get_local_rank("cp"), rows.get_group("cp"))
