"""Text and tokens: commands in turns, conversations as token ids, observations cut to a budget.

Text is tokenised once; a conversation only grows (`renderer`), so the sampled tokens are the trained ones. Agents and
recipes import `renderer`, `parsing`, `truncation` and `tokenizers`. This room knows no engine and no sandbox.
"""
