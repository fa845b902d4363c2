"""Practice repositories: small Python projects with tests, written from a seed.

`functions` and `rules` define what the code computes. `repository` writes the files, and `making` turns them into
tasks. Recipes import `making`. The package needs no network and no foreign source.
"""
