"""Recipes, each read from top to bottom: evaluation, rejection fine-tuning, reinforcement learning, and the whole run of them.

`recipe` runs all parts in order. `policy` opens engines and trainers, `review` examines finished runs, `solve` works on
a checkout. Commands and views import this package. A recipe prints nothing and parses no command line.
"""
