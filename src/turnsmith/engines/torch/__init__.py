"""In-process engine: decoding with PyTorch, with keys and values cached in blocks and shared between sequences.

`inprocess` is the engine. `attention` and `precision` are shared with the trainer, `blocks` with its memory estimates.
`sampling` and `sequences` also serve the diagnosis of mismatch. Other modules serve the engine alone. The package knows
no text, no task and no configuration.
"""
