"""RL algorithms as pure functions, one file each, with shared losses, advantages and packing.

Recipes import `find_algorithm` and `choose_algorithm`; trainers receive a loss function.
This room knows no engine and no trainer.
"""
