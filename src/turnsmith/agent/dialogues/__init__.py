"""Dialogues between an episode's loop and the policy, in tokens or in messages.

Tokens can be trained on; messages are for servers without token ids. `base` defines the interface, which `tokens` and
`messages` implement. A dialogue knows neither tools nor the sandbox.
"""
