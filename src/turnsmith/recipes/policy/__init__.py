"""Policies of a run: engine, trainer and dialogue, opened from the configuration.

`local` holds the policy of this process, `vllm` its servers, `endpoint` the model of another server. `player` chooses
among them. Recipes import `player` and `local`. The package knows neither tasks nor rewards.
"""
