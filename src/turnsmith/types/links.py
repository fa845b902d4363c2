"""Digests of sampled turns, which show that a training batch holds the tokens that were sampled.

A digest covers the episode's id, all tokens before the turn, the sampled tokens, their log-probs and the policy version. The
digest can be recomputed from these arrays, and a difference in one bit changes the digest.
"""

import hashlib
import struct
from dataclasses import dataclass
from typing import Literal

import numpy as np

HALF_BYTES = 8
"""Bytes of each half of a digest; the first half covers tokens only, the second also log-probs and policy version."""


class TurnDigests:
    """Digests of the turns of one episode, computed turn by turn; each token is hashed at most twice."""

    def __init__(self, episode_id: str) -> None:
        name = episode_id.encode()
        self._past = hashlib.blake2b(struct.pack("<q", len(name)) + name, digest_size=HALF_BYTES)

    def read(self, token_ids: np.ndarray) -> None:
        """Append tokens (int32), sampled or not, to the tokens that precede the next turn."""
        self._past.update(np.ascontiguousarray(token_ids, "<i4").data)

    def digest(self, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int) -> str:
        """Return the digest of a turn that follows the tokens read so far, with log-probs (float32).

        The result has 32 hex digits; the first 16 cover tokens only. The turn does not count as read.
        """
        whole = self._past.copy()
        whole.update(np.ascontiguousarray(token_ids, "<i4").data)
        tokens = whole.copy()
        tokens.update(struct.pack("<q", len(token_ids)))
        whole.update(np.ascontiguousarray(logprobs, "<f4").data)
        # The count delimits history, tokens and log-probs.
        whole.update(struct.pack("<qq", len(token_ids), policy_version))
        return tokens.hexdigest() + whole.hexdigest()


def digest_turn(
    episode_id: str, history: np.ndarray, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int
) -> str:
    """Return the digest of one turn, given all tokens before the turn (`history`)."""
    digests = TurnDigests(episode_id)
    digests.read(history)
    return digests.digest(token_ids, logprobs, policy_version)


def is_of_tokens(digest: str, other: str) -> bool:
    """Return True if two digests cover the same history and tokens, even if log-probs or policy versions differ."""
    return digest[: 2 * HALF_BYTES] == other[: 2 * HALF_BYTES]


@dataclass(frozen=True)
class Link:
    """Position and digest of one turn of a sample."""

    start: int
    """Index of the first token of the turn in the sample."""
    end: int
    """Index after the last token of the turn."""
    policy_version: int
    digest: str
    """Digest of the turn's tokens and history, computed when sampled or tokenised; empty if the engine computed none."""
    trains: bool = True
    """False if the whole turn is excluded from the loss, e.g. by RFT after a format error."""


@dataclass(frozen=True)
class OtherPrompt:
    """Prompt used in training instead of the engine's: RFT removes the worked example that was in the prompt while sampling."""

    sampled_behind: np.ndarray
    """Token ids (int32) of the prompt that the engine was given, after which the turns were sampled."""
    num_tokens: int
    """Length of the prompt used in training."""
    digest: str
    """Digest of the prompt used in training, computed when it was rendered."""


@dataclass(frozen=True)
class Provenance:
    """Origin of a sample's tokens, verified against its arrays before training."""

    links: tuple[Link, ...]
    """Position and digest of each turn, in order; a sample ends with its last turn."""
    source: Literal["engine", "tokenizer"] = "engine"
    """`engine` if an engine sampled the tokens; `tokenizer` if they were tokenised from text, which RL may not use."""
    prompt: OtherPrompt | None = None
    """Replacement of the prompt; None if training uses the prompt that the engine was given."""
