"""vLLM server that takes weights from Turnsmith.

`server` starts vLLM. `transport` receives weights through the process group of `group`. `digests` computes digests of the sent
weights and of the layers' weights, for comparison. The package may import the standard library, torch and vLLM. It must not
import Turnsmith.
"""
