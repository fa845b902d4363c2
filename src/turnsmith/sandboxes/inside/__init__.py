"""Code that runs inside a sandbox: the supervisor, which is process 1, and the modules that the supervisor imports.

These modules import only the standard library and each other, so that they start in milliseconds. `warm` is the exception: it
imports pytest when the first sandbox for tests is requested. Providers and graders import `wire` and `toolbox`. The code gets
all facts about the host as arguments.
"""
