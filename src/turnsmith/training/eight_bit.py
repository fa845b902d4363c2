"""AdamW of torchao with moments in 8 bits. Import this module only if `trainer.moments` is `8bit`: torchao is an extra."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torchao.optim import AdamW8bit


class EightBitAdamW(AdamW8bit):
    """AdamW with moments in 8 bits, with one scale per block of 256 (arXiv 2110.02861). Small weights have float32 moments."""

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all weights that have a gradient; on a CPU without the compiler, which would take seconds per shape."""
        is_on_cpu = self.param_groups[0]["params"][0].device.type == "cpu"
        with torch.compiler.set_stance("force_eager") if is_on_cpu else nullcontext():
            return super().step(closure)
