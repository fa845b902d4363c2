"""Text and tokens: the command in a turn, conversations as token ids, observations cut to a budget.

Text becomes tokens once and is never tokenised again: a conversation only grows (`renderer`), so what was sampled is what trains.
"""
