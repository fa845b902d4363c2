"""Conversion of conversations to token ids: chat templates, tokenizers, parsing of commands, truncation of observations.

Text is tokenised once and never again: `renderer` only appends to a conversation. The sampled tokens are therefore the
trained tokens. Agents, recipes, and the diagnosis of mismatch import these modules. The package knows neither the model
nor the sandbox.
"""
