"""Provider of sandboxes in Podman containers, and the Python interpreter that is mounted into them.

`provider` starts containers, and `interpreter` prepares the interpreter. Other parts call `sandboxes.make_provider` instead
of importing this package. Images come from `sandboxes.images`.
"""
