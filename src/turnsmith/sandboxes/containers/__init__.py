"""Sandboxes in containers of Podman."""
