"""Packed rows that are cut among the ranks of a context-parallel group."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from turnsmith.engines.torch.attention import Layout
from turnsmith.training.fsdp.exchange import gather_values
from turnsmith.training.fsdp.gathered import GatheredLayout, pair_ends
from turnsmith.training.fsdp.mesh import Mesh
from turnsmith.training.fsdp.ulysses import UlyssesLayout
from turnsmith.training.model import PackedRow
from turnsmith.training.shared_prefixes import SharedLayout


@dataclass(frozen=True, eq=False)
class RowPart:
    """Part of a packed row that one rank computes."""

    row: PackedRow
    """Tokens of the part, and the tokens in the loss whose log-probs this rank computes."""
    num_targets: list[int]
    """Number of tokens in the loss of each rank's part."""
    order: Tensor
    """Index of each token in the loss of the whole row among those of all parts, `[targets]`."""


def cut_row(row: PackedRow, mesh: Mesh) -> RowPart:
    """Return this rank's part of a row, whose number of tokens is a multiple of `mesh.layout.row_multiple`."""
    cp, num_targets = mesh.layout.cp, len(row.targets)
    if cp == 1:
        return RowPart(row, [num_targets], torch.arange(num_targets, device=mesh.device))
    parts = _part_positions(len(row.token_ids), mesh).to(mesh.device)
    # Tokens are numbered rank by rank, in the order of each rank's tokens.
    numbers = parts.flatten().argsort()[row.sources]
    owners, places = numbers // parts.size(1), numbers % parts.size(1)
    own, chosen = parts[mesh.cp_rank], owners == mesh.cp_rank
    part = PackedRow(row.token_ids[own], _make_layout(row.layout, own, mesh), places[chosen], row.targets[chosen])
    return RowPart(part, owners.bincount(minlength=cp).tolist(), owners.argsort(stable=True).argsort())


def _part_positions(num_tokens: int, mesh: Mesh) -> Tensor:
    """Return the positions in the row of each rank's tokens, `[cp, tokens per rank]`."""
    cp = mesh.layout.cp
    return pair_ends(num_tokens, cp) if mesh.layout.cp_kind == "gather" else torch.arange(num_tokens).view(cp, -1)


def _make_layout(whole: Layout, own: Tensor, mesh: Mesh) -> Layout:
    position_ids = whole.position_ids[own]
    if mesh.layout.cp_kind == "ulysses":
        return UlyssesLayout(whole, position_ids, mesh)
    return GatheredLayout(cast(SharedLayout, whole), position_ids, mesh)


def join_values(part: RowPart, own: Tensor, mesh: Mesh) -> Tensor:
    """Return one value per token in the loss of the whole row, from each rank's own ones, whose gradients they keep."""
    return own if mesh.layout.cp == 1 else gather_values(own, part.num_targets, mesh.cp_group)[part.order]
