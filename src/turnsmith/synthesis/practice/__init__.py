"""Practice repositories: small Python projects with tests, generated from a random seed.

`functions` and `rules` define the computations of the generated code. `repository` writes the files, and `making` turns
repositories into tasks. The package needs no network.
"""
