"""Conversion between conversations and token ids: chat templates, tokenizers, parsing of commands, truncation.

`renderer` only appends tokens to a conversation and never tokenises a text again. So the policy trains on exactly the tokens
that it sampled. The package knows neither the model nor the sandbox.
"""
