"""Sandbox-side code: the builder, which becomes the spawner, and the supervisor, process 1 of each sandbox.

Imports the standard library only, so that processes start in milliseconds. `warm` also imports pytest, when the first sandbox for
tests is requested.
"""
