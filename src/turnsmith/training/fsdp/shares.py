"""Distribution of micro-batches to ranks by their cost."""

from collections.abc import Sequence

Round = list[int | None]
"""Index of the micro-batch that each share computes at the same time; None for a share without work."""


def share_out(costs: Sequence[float], num_shares: int) -> list[Round]:
    """Distribute micro-batches to rounds of one per share, by index; None where a share of the last round gets none.

    All ranks wait for each other in each layer of a round, so a round takes as long as its most expensive micro-batch. Rounds of
    neighbours in the order of costs have the least sum. Example: costs `[5, 1, 4]` and 2 shares give `[[0, 2], [None, 1]]`:
    every second round is reversed, so that no share always gets the most expensive micro-batch.
    """
    order = sorted(range(len(costs)), key=lambda index: (-costs[index], index))
    rounds = list[Round]()
    for number, start in enumerate(range(0, len(order), num_shares)):
        chosen: list[int | None] = [*order[start : start + num_shares]]
        chosen += [None] * (num_shares - len(chosen))
        rounds.append(chosen[::-1] if number % 2 else chosen)
    return rounds
