"""Engine that samples with PyTorch in this process. Attention keys and values are cached in blocks, which sequences share.

`inprocess` is the engine. The trainer also uses `attention`, `precision` and `blocks`. The diagnosis of
log-prob differences also uses `sampling` and `sequences`. The package knows no text, no task and no configuration.
"""
