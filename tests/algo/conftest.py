"""Thread setting for the tests of pure functions."""

import torch

# Use one thread: tiny tensors gain nothing from a second one.
torch.set_num_threads(1)
