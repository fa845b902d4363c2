"""Collection of rollouts: concurrent episodes are played and graded, then converted into groups and samples.

Recipes import `plan_rollouts`, `Generator` and the conversions. This room knows no trainer and no command line.
"""
