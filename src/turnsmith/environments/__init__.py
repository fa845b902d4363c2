"""Python environments in which a repository's tests run, each built once and shared by all tasks with equal requirements.

`discovery` reads the requirements of a repository. `building` installs them with uv. `equipping` tries lists of install
commands until one succeeds. The package does not know tasks, grading or training.
"""
