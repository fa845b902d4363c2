"""Policy of a run, opened from the configuration: engine, trainer and dialogues (conversations with the model).

`opening` opens the policy that a configuration selects, `names` lists the built-in engines and trainers, and `base`
holds the interfaces. `local` opens a model in this process, `fsdp` a trainer on ranks, `vllm` opens vLLM servers, and `endpoint`
uses a model behind an API. `ranks` checks a configuration with ranks. Recipes import `opening`, `base`, `local`, `names` and
`ranks`. The package depends on neither tasks nor rewards.
"""
