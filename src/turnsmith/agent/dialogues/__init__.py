"""Dialogues between an episode's loop and the policy, in tokens or in messages.

Training needs tokens; messages are for servers that return text without token ids. `base` defines the interface, which
`tokens` and `messages` implement. A dialogue uses neither tools nor the sandbox.
"""
