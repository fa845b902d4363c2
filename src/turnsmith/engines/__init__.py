"""Engines, which sample turns: in this process, from vLLM servers, or from an OpenAI-compatible address.

Other rooms import the protocols (`base`, `chat`) and the openers. This room knows no agent, no reward and no trainer.
"""
