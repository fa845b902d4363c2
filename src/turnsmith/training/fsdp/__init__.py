"""Trainer of many ranks: what runs inside one rank of a `torch.distributed` process group.

`mesh` arranges the ranks, `sharding` shards the model over them (FSDP2), and `shares` distributes the micro-batches. `rows` cuts
a packed row among the ranks of a context-parallel group, `ulysses` and `gathered` compute its attention, and `exchange` holds
the collectives. `trainer` makes the optimizer step, `loading` reads a rank's slices of weight files, and `checkpoint` saves and
resumes. This package starts no process: `cluster` does.
"""
