"""vLLM server that takes weights from Turnsmith.

`server` starts vLLM, `transport` receives weights, `held` reads the weights of the layers, and `digests` computes digests for
the comparison. The package may import the standard library, torch and vLLM. It must not import Turnsmith.
"""
