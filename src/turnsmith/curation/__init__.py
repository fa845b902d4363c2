"""Curation of task files: filters, splits, merges, scores, decontamination and export, row by row.

`files` applies filters and splits to files. `decontaminate` finds copies of evaluation tasks, `scoring` asks a model for
scores. `export` and `harbor` write tasks in formats of other projects. Commands and recipes import these modules. The package
runs no rollouts.
"""
