"""Scaffolds: named sets of tools and prompts, one module for each.

`base` defines the record and loads a scaffold by name or import path. `paper` and `bash` are the built-in ones. Recipes
and rollouts import `base`. A scaffold knows neither the engine nor the task.
"""
