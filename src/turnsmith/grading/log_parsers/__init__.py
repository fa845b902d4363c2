"""Parsers of test logs: one module for each family of test runners.

`base` defines the interface. `grading.logparse` lists the parsers by the names that data sets use. Most modules use
this list, and `qualification` also reads failures with `base`. A parser reads text and returns statuses. It knows no
task.
"""
