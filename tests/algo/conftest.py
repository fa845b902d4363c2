"""Thread setting for the tests of pure functions."""

import torch

# Tiny tensors on shared cores: a second thread only waits at barriers.
torch.set_num_threads(1)
