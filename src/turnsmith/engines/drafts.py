"""Tokens that are likely to come next, since they followed the same tokens before: edits repeat the text of files."""

SUFFIX_TOKENS = 3
"""So many tokens at the end have to be the same."""


class Suffixes:
    """A history that grows, and what last followed each short run of its tokens."""

    def __init__(self, history: list[int]) -> None:
        self._tokens: list[int] = []
        self._next_of: dict[tuple[int, ...], int] = {}
        self.extend(history)

    def extend(self, token_ids: list[int]) -> None:
        """Add tokens at the end."""
        begin = max(len(self._tokens), SUFFIX_TOKENS)
        self._tokens += token_ids
        for at in range(begin, len(self._tokens)):
            self._next_of[tuple(self._tokens[at - SUFFIX_TOKENS : at])] = at

    def draft(self, count: int) -> list[int]:
        """What followed the last tokens when they came before, at most `count` of it; empty where they are new."""
        at = self._next_of.get(tuple(self._tokens[-SUFFIX_TOKENS:]), len(self._tokens))
        return self._tokens[at : at + count]
