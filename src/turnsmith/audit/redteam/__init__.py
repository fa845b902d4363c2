"""Red team: scripted attacks on the grader, which must not be rewarded, and honest patches, which must be rewarded.

`scripts` reads the shell scripts in the folder redteam/ of the repository. `targets` makes the tasks, and `trials` runs one
script against one task. The command `redteam` imports them. The package uses no policy and no engine.
"""
