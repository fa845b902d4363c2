"""Export of tasks as Harbor directories, with the results of their qualification.

`directory` writes the files. It copies `judge`, `turnsmith_statuses` and `test.sh` into each directory.
The copies import only the standard library and pytest. `curation.export` imports this package.
"""
