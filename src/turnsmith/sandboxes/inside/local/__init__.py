"""Construction of local sandboxes, in a helper process that builds their root directory and then forks each sandbox.

`root` builds a read-only root directory in a mount namespace. `spawner` forks process 1 of each sandbox. `process_one` runs
in that process: it enters the namespaces and becomes the supervisor. Only the standard library and `sandboxes.inside` are
imported.
"""
