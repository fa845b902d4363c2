"""Collection of rollouts: many episodes run at once, are graded, and become groups and training samples.

`generator` runs the episodes, and `inspection` audits suspicious patches. `samples` makes samples for the trainer, with
digests that show if a token was changed after sampling. The package contains no algorithm and no optimizer.
"""
