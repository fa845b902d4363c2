"""Scaffolds: named sets of tools and prompts, one per file; `base` defines the type."""
