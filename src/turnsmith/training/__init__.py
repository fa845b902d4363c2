"""Trainers, models, checkpoints and the memory estimate.

Recipes import the protocol (`base`) and the openers of models and trainers. This room knows no algorithm and no agent.
"""
