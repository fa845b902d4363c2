"""How a local sandbox is made: the builder, which becomes the spawner, and process 1 of each sandbox."""
