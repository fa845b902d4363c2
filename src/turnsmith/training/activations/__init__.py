"""Activation memory of a model's layers: recomputation in the backward pass, layer inputs on the host, tiled MLPs.

All features replace the `forward` of modules and change neither names nor parameters. So they can be applied before or after
`fully_shard`, and in any combination. They may be used by trainers and benchmarks. They know no loss and no optimizer.
"""
