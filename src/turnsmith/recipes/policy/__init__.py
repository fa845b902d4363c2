"""Policy of a run, opened from the configuration: engine, trainer and dialogues (conversations with the model).

`opening` opens the policy that a configuration selects, `names` lists the built-in engines and trainers, and `base`
holds the interfaces. `local` opens a model in this process, `vllm` opens vLLM servers, `endpoint` uses a model behind an API.
Recipes import `opening`, `base` and `local`. The package depends on neither tasks nor rewards.
"""
