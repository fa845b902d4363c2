"""Makers of tasks: bugs in packages, practice repositories, and commits of git histories.

`packages`, `practice` and `mining` each make one kind of task. `mutators` write the bugs, `validation` keeps those that
tests find, `issues` and `issue_writer` write the issue. Recipes, commands and the red team import them. The package
knows no policy, audit or training.
"""
