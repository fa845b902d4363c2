"""Plan of a run before it starts: time by phase, memory, cores, disk, network and cost.

`hardware` has figures of processors, `workload` the sizes of episodes, `rates` the speeds of engine and trainer. `simulation`
plays the episodes of one iteration on a virtual clock, and `estimate` adds up all phases. `calibration` reads sizes and
speeds from a finished run, and `changes` finds settings that would save time. Nothing here imports torch.
"""
