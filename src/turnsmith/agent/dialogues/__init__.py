"""Dialogues of episodes: as tokens, which can train, or as messages, for servers without token ids."""
