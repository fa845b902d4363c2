"""Table of the public data sets: short name → import path."""

from turnsmith.config.names import NameTable

SETS = NameTable(
    "data set",
    {
        "harbor": "turnsmith.tasks.sets.harbor:HARBOR",
        "multi-swe": "turnsmith.tasks.sets.multi_swe:MULTI_SWE",
        "r2e-gym": "turnsmith.tasks.sets.r2e_gym:R2E_GYM",
        "swe-rebench-v2": "turnsmith.tasks.sets.swe_rebench:SWE_REBENCH_V2",
        "swe-rebench": "turnsmith.tasks.sets.swe_rebench:SWE_REBENCH",
        "swe-bench-v5": "turnsmith.tasks.sets.swe_bench_v5:SWE_BENCH_V5",
        "swe-bench": "turnsmith.tasks.sets.swe_bench:SWE_BENCH",
        "swe-gym": "turnsmith.tasks.sets.swe_bench:SWE_GYM",
        "swe-bench-pro": "turnsmith.tasks.sets.swe_bench_pro:SWE_BENCH_PRO",
        "swe-smith": "turnsmith.tasks.sets.swe_smith:SWE_SMITH",
        "nebius-openhands": "turnsmith.tasks.sets.trajectories:OPENHANDS",
        "nebius-swe-agent": "turnsmith.tasks.sets.trajectories:SWE_AGENT",
    },
)
"""Short name → `PublicSet`. Rows are compared in this order, so a set that has all columns of another comes before it."""
