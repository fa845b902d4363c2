"""Links of the chain that proves what trains to be what was sampled: a digest for each turn, made where it was sampled.

A digest covers the episode's id, all tokens before the turn as the engine was given them, the sampled tokens, their log-probs,
and the policy version. Who holds these arrays can make it again; what differs in one bit gives another.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

HALF_BYTES = 8
"""A digest has two halves, so that it can tell other tokens from other log-probs."""


class TurnDigests:
    """Digests of the turns of one episode, in order. Each token is hashed twice, however many turns there are."""

    def __init__(self, episode_id: str) -> None:
        name = episode_id.encode()
        self._past = hashlib.blake2b(struct.pack("<q", len(name)) + name, digest_size=HALF_BYTES)

    def read(self, token_ids: np.ndarray) -> None:
        """Go on in the history: tokens (int32) that the policy has before it from now on, sampled or not."""
        self._past.update(np.ascontiguousarray(token_ids, "<i4").data)

    def digest(self, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int) -> str:
        """Of tokens sampled after what was read, with log-probs (float32): 32 hex digits, the first 16 of all tokens alone.

        What was read stays as it is.
        """
        whole = self._past.copy()
        whole.update(np.ascontiguousarray(token_ids, "<i4").data)
        tokens = whole.copy()
        tokens.update(struct.pack("<q", len(token_ids)))
        whole.update(np.ascontiguousarray(logprobs, "<f4").data)
        # The count, at a fixed place, tells where history, tokens and log-probs meet.
        whole.update(struct.pack("<qq", len(token_ids), policy_version))
        return tokens.hexdigest() + whole.hexdigest()


def digest_turn(
    episode_id: str, history: np.ndarray, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int
) -> str:
    """The digest of one turn, sampled after a whole history."""
    digests = TurnDigests(episode_id)
    digests.read(history)
    return digests.digest(token_ids, logprobs, policy_version)


def is_of_tokens(digest: str, other: str) -> bool:
    """Are two digests of the same tokens after the same history, whatever else differs?"""
    return digest[: 2 * HALF_BYTES] == other[: 2 * HALF_BYTES]


@dataclass(frozen=True)
class Link:
    """What proves one turn of a sample."""

    start: int
    """Index in the sample of its first token."""
    end: int
    """Index one past its last."""
    policy_version: int
    digest: str
    """Of its engine; empty where that made none."""
    trains: bool = True
    """False where the whole turn is left out of the loss, as RFT leaves out turns with format errors."""


@dataclass(frozen=True)
class OtherPrompt:
    """The prompt of a sample that trains behind another one than it was sampled behind, as RFT's do."""

    sampled_behind: np.ndarray
    """int32; what the engine was given in its place."""
    num_tokens: int
    """Length of the prompt that trains."""
    digest: str
    """Of the prompt that trains, made where it was rendered."""


@dataclass(frozen=True)
class Provenance:
    """Where the tokens of a sample come from, to be proven again from its arrays before they train."""

    links: tuple[Link, ...]
    """One for each turn, in order; nothing stands in a sample after the last."""
    source: Literal["engine", "tokenizer"] = "engine"
    """`tokenizer`: no engine sampled them, text of others was tokenised; the links begin there. This is for imitation alone."""
    prompt: OtherPrompt | None = None
    """None where the engine was given the sample's own prompt."""
