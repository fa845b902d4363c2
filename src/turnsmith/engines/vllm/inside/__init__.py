"""Code for the other environment, the one with vLLM. This folder is put on its PYTHONPATH.

`turnsmith_vllm` imports the standard library, torch and vLLM. It imports nothing of Turnsmith, which is not installed
there. Only `engines.vllm` refers to this folder.
"""
