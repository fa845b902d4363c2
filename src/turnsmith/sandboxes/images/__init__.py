"""Container images: names, registries, logins, pulls, checks before a pull, and copies of their working trees.

`images` finds an image by name or imports a root file system. `registry` is a client of the OCI protocol. Sandbox providers
and the commands for images import them. The package starts no sandbox.
"""
