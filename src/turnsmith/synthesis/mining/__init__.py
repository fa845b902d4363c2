"""Tasks from the history of a repository: commits that change source and tests together.

`candidates` selects commits, `measuring` runs their tests, `mining` writes the tasks. `rebuilding` prepares tasks of public
data sets to run without their container images. The package reads history only through `git.history`.
"""
