"""Export of tasks as Harbor directories, with the results of their qualification.

`directory` writes the files. `judge`, `turnsmith_statuses` and `test.sh` are copied into each directory and run there.
Those copies import only the standard library and pytest. `curation.export` imports this package.
"""
