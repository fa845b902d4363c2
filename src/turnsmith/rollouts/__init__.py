"""Collection of rollouts: many episodes run at once, are graded, and become groups and training samples.

`generator` runs the episodes, `inspection` audits suspicious patches, `samples` makes samples for the trainer,
with the engines' digests. The package knows no algorithm and no optimizer.
"""
