"""Curation of task files: filters with a funnel, splits, decontamination, scores. Rows are streamed."""
