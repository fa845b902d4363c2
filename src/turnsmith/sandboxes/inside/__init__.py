"""What runs on the sandbox's side: the builder, which becomes the spawner, and the supervisor that is process 1 of each sandbox.

Nothing here imports more than the standard library, so it starts in milliseconds; but for `warm`, which imports pytest when the
first sandbox for tests is asked for.
"""
