"""A server of vLLM that takes weights from Turnsmith."""
