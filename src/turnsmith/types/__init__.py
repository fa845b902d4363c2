"""Data types that all packages share: Task → Turn → Trajectory → Group → Sample → MicroBatch.

Records are frozen, and so are their arrays. Arrays that belong together are checked for equal lengths at construction. An
array of the right type is used without a copy. Any package may import this one, which imports only pydantic and numpy.
"""

from turnsmith.types.abilities import Ability, Mutant
from turnsmith.types.conversations import BYTES_PER_TOKEN, Conversation, Message, estimate_tokens
from turnsmith.types.edits import Edit
from turnsmith.types.links import Link, OtherPrompt, Provenance, TurnDigests, digest_turn
from turnsmith.types.outcomes import OUTCOMES, Audit, AuditedPatch, Grade, Outcome, OutcomeRule, StopReason
from turnsmith.types.records import Record, to_array
from turnsmith.types.samples import MicroBatch, Sample, add_tokenizer_provenance
from turnsmith.types.sandboxes import ExecResult, Isolation
from turnsmith.types.tasks import PYTEST, PYTEST_COMMAND, Task, TaskTree
from turnsmith.types.trajectories import Completion, Group, SamplingParams, Trajectory, Turn

__all__ = [
    "BYTES_PER_TOKEN", "OUTCOMES", "PYTEST", "PYTEST_COMMAND", "Ability", "Audit", "AuditedPatch", "Completion", "Conversation",
    "Edit", "ExecResult", "Grade", "Group", "Isolation", "Link", "Message", "MicroBatch", "Mutant", "OtherPrompt",
    "Outcome", "OutcomeRule", "Provenance", "Record", "Sample", "SamplingParams", "StopReason", "Task", "TaskTree",
    "Trajectory", "Turn", "TurnDigests", "add_tokenizer_provenance", "digest_turn", "estimate_tokens", "to_array",
]  # fmt: skip
