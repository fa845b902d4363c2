"""Conversion between conversations and token ids: chat templates, tokenizers, parsing of commands, truncation.

`renderer` only appends tokens to a conversation and never tokenises sampled text again. So training uses exactly the tokens
that the policy sampled. The package uses neither the model nor the sandbox.
"""
