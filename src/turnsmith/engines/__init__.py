"""Inference engines, which sample the policy's turns: some exchange token ids and log-probs, others messages.

`base` defines the interface of token engines, and `chat` that of message engines. `torch`, `vllm` and `endpoint` implement
them. The package `recipes` opens engines, and `agent` asks them for turns. A token engine never handles text.
"""
