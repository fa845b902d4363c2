"""vLLM server that takes weights from Turnsmith.

`server` starts it, `transport` receives weights, `held` holds them, `digests` checks them. The package may import the
standard library, torch and vLLM. It must not import Turnsmith.
"""
