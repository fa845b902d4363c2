"""Export of tasks as Harbor directories, with the results of their qualification.

`directory` writes the directories. Each gets a copy of the modules `judge` and `turnsmith_statuses` and of the script `test.sh`.
The copies import only the standard library and pytest. `curation.export` imports this package.
"""
