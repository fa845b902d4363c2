"""Parsers of test logs: one module for each family of test runners.

`base` defines the interface. `grading.logparse` lists the parsers by the names that data sets use. `qualification` also
imports `base` and `methods`, to read failures. A parser reads a text and returns statuses, independently of the task.
"""
