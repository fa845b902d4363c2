"""Training of a policy: model loading, the trainer, checkpoints, provenance of samples, memory estimates and export.

`base` defines the interface of a trainer, and `local` implements it in this process. `provenance` proves that the batch
holds what was sampled. Recipes and rollouts import these modules. The trainer knows no algorithm: it gets a loss
function and samples.
"""
