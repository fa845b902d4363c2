"""What runs on the sandbox's side: the spawner, and the supervisor that is process 1 of each sandbox.

Nothing here imports more than the standard library and `wire`: the helper starts as `python -I -S`, in milliseconds.
"""
