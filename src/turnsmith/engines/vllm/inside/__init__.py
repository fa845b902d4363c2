"""What runs in the other environment, the one that has vLLM: the folder is put on its PYTHONPATH.

`turnsmith_vllm` imports the standard library, torch and vLLM, and nothing of Turnsmith, which is not installed there.
"""
