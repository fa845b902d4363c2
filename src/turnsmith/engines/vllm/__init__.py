"""vLLM engine: servers in a separate environment, which receive weights from this process.

Recipes import `open_vllm`. This folder knows no recipe, and `inside` imports nothing of Turnsmith.
"""
