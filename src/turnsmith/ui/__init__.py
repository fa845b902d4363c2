"""Views of a run: live progress, tables, curves, single trajectories, comparisons and model cards.

`reading` reads run folders, and the other modules show what it returns. `terminal` makes text safe to print. Only the
command line imports this package. A view never imports torch and does not know how a run works.
"""
