"""Code that runs on the sandbox's side: the supervisor, which is process 1, and the modules that it uses.

These modules import only the standard library and each other, so that they start in milliseconds. `warm` is the
exception: it imports pytest when the first sandbox for tests is requested. Providers and graders import `wire` and
`toolbox`. The package knows nothing of the host beyond its arguments.
"""
