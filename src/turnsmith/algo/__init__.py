"""Algorithms of reinforcement learning as pure functions: rewards, advantages, losses, and packing of samples.

Each algorithm is one file with an advantage and a loss: `dapo`, `grpo`, `dr_grpo`, `rloo`, `gspo`, `cispo`. `algorithm`
defines their interface. Trainers, rollouts and recipes import these modules. The package knows no model, no engine and
no file.
"""
