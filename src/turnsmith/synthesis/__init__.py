"""Makers of tasks: from bugs inserted into packages, from generated practice repositories, and from commits of git histories.

`packages`, `practice` and `mining` each make one kind of task. `mutators` insert bugs, `validation` keeps the bugs that tests
detect, `issues` writes the issue texts. The package must not import code for policies, audits or training.
"""
