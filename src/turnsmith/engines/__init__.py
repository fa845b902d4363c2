"""Inference engines that take token ids and return token ids with log-probs, and engines that exchange messages.

`base` defines the interface of engines on tokens, and `chat` that of engines on messages. `torch`, `vllm` and
`endpoint` implement them. Recipes open engines, and agents call the interfaces. An engine on tokens never handles text.
"""
