"""Python environments for the tests of a repository: requirements, interpreters and packages, built once and shared.

`discovery` reads the requirements of a repository. `building` installs them with uv. `equipping` tries recipes, from
the most faithful to the plainest. Task makers and recipes import these modules. The package does not know tasks,
grading or training.
"""
