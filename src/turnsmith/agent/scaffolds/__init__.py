"""Scaffolds: named sets of tools and prompts, one module for each.

`base` defines `Scaffold`, and loads a scaffold by name or import path. `paper` and `bash` are built in. A scaffold does not
depend on the engine or the task.
"""
