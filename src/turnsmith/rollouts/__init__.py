"""Collection of rollouts: many episodes run at once, are graded, and become groups and training samples.

`generator` runs the episodes, `inspection` audits suspicious patches, `samples` makes samples for the trainer,
with the engines' digests. The package contains no algorithm and no optimizer.
"""
