"""Table of the built-in algorithms."""

from turnsmith.config.names import NameTable

ALGORITHMS = NameTable(
    "algorithm",
    {
        "cispo": "turnsmith.algo.cispo:CISPO",
        "dapo": "turnsmith.algo.dapo:DAPO",
        "dr_grpo": "turnsmith.algo.dr_grpo:DR_GRPO",
        "grpo": "turnsmith.algo.grpo:GRPO",
        "gspo": "turnsmith.algo.gspo:GSPO",
        "rloo": "turnsmith.algo.rloo:RLOO",
    },
)
"""Name of each built-in algorithm → import path of its `Algorithm` object."""
