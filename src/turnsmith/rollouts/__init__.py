"""Collecting: many episodes at once, each prepared, played and graded; what they leave becomes groups and samples."""
