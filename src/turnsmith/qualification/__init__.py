"""Qualification of tasks for training: agents can read no copy of the fix, and the gold patch passes every time.

`examination` examines one task. `task_set` examines all tasks of a set and leaves out unfit tasks. `record` stores the
results beside the task file. The packages `curation` and `recipes` import these modules. Qualification uses no policy.
"""
