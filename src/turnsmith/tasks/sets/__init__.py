"""Public data sets: readers of their rows and folders, import into task files, and export."""
