"""Expert: a scripted agent that knows the gold patch of a task, and plays the loop of an episode to demonstrate the tools.

The expert acts only on what the dialogue has shown. It searches for names and opens files that it has read about, and edits
lines that it has seen.

`code_map` lists the definitions of a repository, and `sight` what the dialogue has shown. `expert` chooses the next command,
`hands` writes it for the scaffold, and `dialogues` connects the expert to the loop.
"""
