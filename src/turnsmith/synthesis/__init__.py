"""Makers of tasks from three sources: bugs inserted into packages, generated practice repositories, and commits of git histories.

`packages`, `practice` and `mining` each make one kind of task. `mutators` insert bugs, `validation` keeps the bugs that tests
detect, `issues` writes the issue texts. The package knows no policy, audit or training.
"""
