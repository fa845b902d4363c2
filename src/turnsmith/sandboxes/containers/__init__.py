"""Sandboxes in Podman containers, and the images they are made from."""
