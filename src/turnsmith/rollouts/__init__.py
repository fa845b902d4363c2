"""Collection of rollouts: many episodes at once, each prepared, played and graded, then made into groups and samples.

`generator` runs the episodes, `inspection` audits suspicious patches, `samples` makes samples for the trainer.
`provenance` adds the digests that prove them. Recipes import these modules. The package knows no algorithm and no
optimizer.
"""
