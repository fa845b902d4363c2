"""Provider of sandboxes in Podman containers, and the Python interpreter that is mounted into them.

`provider` starts containers, and `interpreter` prepares the interpreter. Other parts reach them through
`sandboxes.make_provider`. Images come from `sandboxes.images`. The package does not know what runs in a container.
"""
