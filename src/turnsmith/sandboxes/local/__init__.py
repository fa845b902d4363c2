"""Sandboxes on this machine by Linux namespaces and overlayfs."""
