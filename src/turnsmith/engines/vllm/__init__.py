"""Engine on vLLM servers that run in another Python environment: start, requests, weight updates and restarts.

`opening` starts replicas and returns the engine. `handover` moves weights to the servers. `inside` runs in the other
environment. Recipes import `opening` and `settings`. The package does not import vLLM itself.
"""
