"""Tables of the built-in engines and trainers."""

from turnsmith.config.names import NameTable

TOKEN_ENGINES = {
    "inprocess": "turnsmith.recipes.policy.local:open_inprocess_engine",
    "vllm": "turnsmith.recipes.policy.vllm:open_vllm_engine",
}
"""Built-in engines that sample token ids. Their modules import torch."""
ENGINES = NameTable("engine", TOKEN_ENGINES | {"openai": "turnsmith.recipes.policy.endpoint:open_endpoint"})
"""Engine kind → import path of the function that opens the engine (`recipes.policy.base.OpenEngine`)."""
TRAINERS = NameTable(
    "trainer",
    {
        "local": "turnsmith.recipes.policy.local:open_local_trainer",
        "fsdp": "turnsmith.recipes.policy.fsdp:open_rank_trainer",
    },
)
"""Trainer kind → import path of the function that opens the trainer (`recipes.policy.base.OpenTrainer`)."""
