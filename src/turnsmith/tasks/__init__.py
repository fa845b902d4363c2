"""Records of tasks: task files, selection, predictions, public data sets, and one-commit histories."""
