"""Storage of tasks: task files, selection, predictions, task sets, and readers of public data sets in `sets`.

`dataset` reads and writes task files. `task_set` holds the tasks of a run with their folders. `vagueness` finds issues that
describe no problem. The package knows how tasks are stored, but not how they are made, run or graded.
"""
