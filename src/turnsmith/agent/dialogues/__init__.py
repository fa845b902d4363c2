"""Dialogues of an episode: as tokens, which can be trained on, or as messages for servers that give no tokens.

`base` defines the interface that the loop uses. `tokens` and `messages` implement it. Recipes choose one of them. A
dialogue knows neither tools nor the sandbox.
"""
