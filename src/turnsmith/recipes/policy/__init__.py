"""Policies of a run: engine, trainer and dialogues, opened from the configuration.

`opening` opens the policy that a configuration selects, `names` lists the built-in engines and trainers, and `base`
holds the interfaces. `local` is the policy of this process, `vllm` its servers, `endpoint` the model of another server.
Recipes import `opening`, `base` and `local`. The package knows neither tasks nor rewards.
"""
