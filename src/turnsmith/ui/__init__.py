"""Faces of a run: live progress, tables, one trajectory, curves. They read run folders and know nothing of how a run works."""
