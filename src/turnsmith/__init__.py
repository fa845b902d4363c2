"""System that trains software-engineering agents by reinforcement learning on long, multi-turn episodes.

Each folder and each single file is one part of the system, and imports only from parts of lower levels. The table of levels
is in docs/architecture.md, and import-linter checks it.
"""

__version__ = "0.2.0"
