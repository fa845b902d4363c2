"""Agents: the loop of one episode, dialogues, scaffolds, prompts and tools (paper §3).

`loop` plays one episode: reasoning, one command, one observation. Tools run on the host against the sandbox, so that
nothing is installed in an image. A tool keeps its state in one small record (`tools.base.Session`). Rollouts and
recipes import these modules. The package knows neither grading nor training.
"""
