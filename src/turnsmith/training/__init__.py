"""Training of a policy: model loading, the trainer, checkpoints, provenance of samples, memory estimates and export.

`base` defines the interface of a trainer, and `local` implements it in this process. `provenance` verifies that a training
batch holds exactly the tokens that the engine sampled. `sampler_settings` tests if the engine sampled at another temperature
or with a filter. A trainer contains no RL algorithm: it gets a loss function and samples.
"""
