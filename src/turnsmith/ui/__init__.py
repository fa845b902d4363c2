"""Views of a run: live progress, tables, curves, single trajectories, comparisons and model cards.

`reading` reads run folders, and the other modules display its data. `terminal` makes text safe to print. Only the
command line imports this package. No view imports torch or the code that runs recipes.
"""
