"""Scripted attacks on the grader, which must not be rewarded, and honest patches, which must be.

`scripts` reads the shell scripts in the folder redteam/ of a checkout. `targets` makes the tasks, and `trials` runs one
script against one task. The command `redteam` imports them. The package knows no policy and no engine.
"""
