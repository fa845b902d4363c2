"""Engine that samples with vLLM servers, which run in another Python environment: start, requests, weight updates, restarts.

`engine` starts replicas and samples with them. `handover` moves weights to the servers. `inside` holds the code that runs
in the servers' environment. Only that code imports vLLM.
"""
