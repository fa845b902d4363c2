"""Qualification of tasks for training: no copy of the fix in reach, a gold patch that passes every time, no flaky tests.

`examination` examines one task. `task_set` examines all tasks of a set and leaves out the unfit. `record` stores the
results beside the task file. Curation and recipes import them. The package knows no policy.
"""
