"""Container images: names, registries, logins, checks before a pull, pulls, and host copies of images' working trees.

`images` finds an image by name or imports a root file system. `registry` is a client of the OCI protocol. Sandbox providers
and the commands for images import this package. The package starts no sandbox.
"""
