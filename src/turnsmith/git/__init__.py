"""Git data: working trees made of stacked folders, diffs, patches, `.git` folders with one commit, histories and checkouts.

`layers` reads stacked folders. `diff` compares them. `patches` splits patches and `patch_policy` checks them. `one_commit` writes
git objects, `history` and `checkout` read repositories. The package depends on no tasks, sandboxes or tests.
"""
