"""Turnsmith trains software-engineering agents by reinforcement learning on long, multi-turn episodes."""

__version__ = "0.2.0"
