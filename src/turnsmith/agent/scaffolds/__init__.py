"""Named sets of tools and prompts, one file for each; `base` says what one is."""
