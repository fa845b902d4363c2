"""Agents: the loop of one episode, dialogues, scaffolds, prompts and tools (paper §3).

`loop` runs one episode, in turns of reasoning, one command and one observation. Tools run on the host and act on the sandbox,
so they need no installation in a container image. Their state is one record per episode (`tools.base.Session`). The package
contains neither grading nor training.
"""
