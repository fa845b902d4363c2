"""Code that runs in the Python environment of vLLM, where this folder is on PYTHONPATH.

`turnsmith_vllm` imports the standard library, torch and vLLM, but nothing of Turnsmith, which is not installed in that
environment. Only `engines.vllm` refers to this folder.
"""
