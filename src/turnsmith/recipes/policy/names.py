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
"""Engine kind → import path of the function that opens the engine (`recipes.policy.base.OpenEngine`)."""
TRAINERS = NameTable(
    "trainer",
    {
        "local": "turnsmith.recipes.policy.local:open_local_trainer",
    },
)
"""Trainer kind → import path of the function that opens the trainer (`recipes.policy.base.OpenTrainer`)."""
