"""Properties of the distribution of micro-batches to ranks, and of the cuts of packed rows. No process group is needed."""

from types import SimpleNamespace

import torch
from hypothesis import given
from hypothesis import strategies as st

from support.sharded import CPU, make_sample
from turnsmith.training.fsdp.gathered import pair_ends
from turnsmith.training.fsdp.mesh import RankLayout
from turnsmith.training.fsdp.rows import cut_row
from turnsmith.training.fsdp.shares import share_out
from turnsmith.training.model import pack_row
from turnsmith.types import MicroBatch

kinds = st.sampled_from(["ulysses", "gather"])
costs = st.lists(st.floats(0, 100), min_size=1, max_size=20)


def cut_for_all_ranks(seeds, cp, kind, share_prefixes):
    layout = RankLayout(cp, cp, cp_kind=kind)
    micro_batch = MicroBatch([make_sample(seed) for seed in seeds], share_prefixes=share_prefixes)
    row = pack_row(micro_batch, CPU, layout.row_multiple, in_parts=layout.cuts_attention)
    meshes = [SimpleNamespace(layout=layout, device=CPU, cp_rank=rank, cp_group=None) for rank in range(cp)]
    return row, [cut_row(row, mesh) for mesh in meshes]


@given(costs, st.integers(1, 5))
def test_each_micro_batch_is_computed_once_and_only_the_last_round_has_gaps(costs, num_shares):
    rounds = share_out(costs, num_shares)
    assert all(len(chosen) == num_shares for chosen in rounds)
    assert sorted(index for chosen in rounds for index in chosen if index is not None) == list(range(len(costs)))
    assert all(index is not None for chosen in rounds[:-1] for index in chosen)


@given(costs, st.integers(1, 5), st.randoms())
def test_no_other_distribution_to_rounds_takes_less_time(costs, num_shares, random):
    """A round takes as long as its most expensive micro-batch."""

    def find_time(rounds):
        return sum(max(costs[index] for index in chosen if index is not None) for chosen in rounds)

    shuffled = random.sample(range(len(costs)), len(costs))
    others = [shuffled[start : start + num_shares] for start in range(0, len(costs), num_shares)]
    assert find_time(share_out(costs, num_shares)) <= find_time(others) + 1e-9


def test_the_example_of_the_docstring():
    assert share_out([5, 1, 4], 2) == [[0, 2], [None, 1]]
    assert pair_ends(8, 2).tolist() == [[0, 1, 6, 7], [2, 3, 4, 5]]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5, unique=True), st.integers(1, 4), kinds, st.booleans())
def test_parts_of_a_row_hold_all_its_tokens_and_targets_once(seeds, cp, kind, share_prefixes):
    row, parts = cut_for_all_ranks(seeds, cp, kind, share_prefixes)
    sizes = {len(part.row.token_ids) for part in parts}
    assert sizes == {len(row.token_ids) // cp}
    columns = [torch.stack([part.row.token_ids, part.row.layout.position_ids]) for part in parts]
    whole = torch.stack([row.token_ids, row.layout.position_ids])
    assert sorted(map(tuple, torch.cat(columns, dim=1).T.tolist())) == sorted(map(tuple, whole.T.tolist()))
    assert [len(part.row.targets) for part in parts] == parts[0].num_targets
    assert torch.equal(torch.cat([part.row.targets for part in parts])[parts[0].order], row.targets)
    hidden = torch.cat([part.row.token_ids[part.row.sources] for part in parts])[parts[0].order]
    assert torch.equal(hidden, row.token_ids[row.sources])


@given(st.integers(1, 6), st.integers(1, 9))
def test_pairs_of_ends_have_equal_causal_work(num_ranks, size):
    work = (pair_ends(2 * num_ranks * size, num_ranks) + 1).sum(1)
    assert len(set(work.tolist())) == 1
