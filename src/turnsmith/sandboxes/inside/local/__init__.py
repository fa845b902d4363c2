"""Construction of local sandboxes: the builder, which becomes the spawner, and process 1 of each sandbox."""
