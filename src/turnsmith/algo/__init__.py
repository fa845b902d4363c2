"""Reinforcement learning algorithms as pure functions: rewards, advantages, losses, and packing of samples.

Each algorithm is one module with a loss function and an advantage function: `dapo`, `grpo`, `dr_grpo`, `rloo`, `gspo`,
`cispo`. `algorithm` defines their interface. In the modules' formulas, gradients flow through π, and so through ρ = π/π_old,
but not through Â, π_old or sg(…). The package uses no model, no engine and no file.
"""
