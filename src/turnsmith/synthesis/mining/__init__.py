"""Tasks from the history of a repository: commits that change source and tests together.

`candidates` selects commits, `measuring` runs their tests, `mining` writes the tasks. `rebuilding` recreates tasks of
public sets without their images. Commands and recipes import them. The package reads history only through
`git.history`.
"""
