"""Code that runs in the vLLM environment, through its PYTHONPATH.

`turnsmith_vllm` imports only the standard library, torch and vLLM; Turnsmith is not installed there.
"""
