"""Diagnosis of differences between the log-probs of engine and trainer.

Each hypothesis assumes one fault of the engine and recomputes the log-probs of stored rollouts under that fault.
`examination` tests all hypotheses, which come from one module for each family of faults. `report` holds the result.
"""
