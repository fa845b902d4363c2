"""Container images: references, registries, logins, pulls, checks before a pull, and the working trees in an image.

`images` finds an image by name or imports a root file system. `registry` speaks the OCI protocol. `cache` keeps working
trees of images. The providers of sandboxes and the commands for images import them. The package starts no sandbox.
"""
