"""Container images: names, registries, logins, pulls, checks before a pull, and copies of their working trees.

`images` finds an image by name or imports a root file system. `registry` is a client of the OCI protocol. `cache` records
pulled images and evicts them. Sandbox providers and the commands for images import them.
"""
