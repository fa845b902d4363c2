"""Git data: directory layers, diffs, patches, one-commit trees, histories and checkouts.

`layers` reads stacked directories. `diff` compares them. `patches` splits patches and `patch_policy` checks them.
`one_commit` writes git objects, `history` and `checkout` read repositories. The
package depends on no tasks, sandboxes or tests.
"""
