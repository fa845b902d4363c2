"""Tables of the built-in engines and trainers."""

from turnsmith.config.names import NameTable

ENGINES = NameTable(
    "engine",
    {
        "inprocess": "turnsmith.recipes.policy.local:open_inprocess_engine",
        "openai": "turnsmith.recipes.policy.endpoint:open_endpoint",
        "vllm": "turnsmith.recipes.policy.vllm:open_vllm_engine",
    },
)
"""Functions `recipes.policy.base.OpenEngine`."""
TRAINERS = NameTable(
    "trainer",
    {
        "local": "turnsmith.recipes.policy.local:open_local_trainer",
    },
)
"""Functions `recipes.policy.base.OpenTrainer`."""
