"""Diagnosis of differences between the log-probs of engine and trainer.

Each hypothesis assumes one fault of the engine and recomputes the log-probs of stored rollouts under that fault.
`faults`, `settings` and `tokenisation` list the hypotheses, `examination` tests them, and `report` defines the result.
"""
