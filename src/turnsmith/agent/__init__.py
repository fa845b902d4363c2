"""Agents: the loop of one episode, dialogues, scaffolds, prompts and tools (paper §3).

`loop` runs one episode, in turns of reasoning, one command and one observation. Tools run on the host and act on the sandbox,
so that nothing is installed in an image. Tools keep their state in one small record (`tools.base.Session`). The package knows
neither grading nor training.
"""
