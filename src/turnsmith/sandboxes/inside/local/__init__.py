"""Construction of a local sandbox: the builder of the root, which becomes the spawner, and process 1 of each sandbox.

`root` builds a read-only root in a mount namespace. `spawner` forks one process for each sandbox. `process_one` enters
the namespaces and becomes the supervisor. Only the standard library and `sandboxes.inside` are imported.
"""
