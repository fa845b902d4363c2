"""Diagnosis of differences between the log-probs of engine and trainer: stored rollouts are scored under one fault at a time.

`examination` runs the hypotheses, one module for each family. `report` holds the result, which commands and views
import. The package reads trajectories and loads a model. It does not know how they were collected.
"""
