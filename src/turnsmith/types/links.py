"""Links of the chain that proves what trains to be what was sampled: a digest for each turn, made where it was sampled.

A digest covers the episode's id, all tokens before the turn as the engine was given them, the sampled tokens, their log-probs,
and the policy version. Who holds these arrays can make it again; what differs in one bit gives another.
"""

import hashlib
import struct

import numpy as np

DIGEST_BYTES = 16


class TurnDigests:
    """Digests of the turns of one episode, in order. Each token is hashed twice, however many turns there are."""

    def __init__(self, episode_id: str) -> None:
        name = episode_id.encode()
        self._past = hashlib.blake2b(struct.pack("<q", len(name)) + name, digest_size=DIGEST_BYTES)

    def read(self, token_ids: np.ndarray) -> None:
        """Go on in the history: tokens (int32) that the policy has before it from now on, sampled or not."""
        self._past.update(np.ascontiguousarray(token_ids, "<i4").data)

    def digest(self, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int) -> str:
        """Of tokens sampled after what was read, with log-probs (float32): 32 hex digits. The history stays as it is."""
        turn = self._past.copy()
        turn.update(np.ascontiguousarray(token_ids, "<i4").data)
        turn.update(np.ascontiguousarray(logprobs, "<f4").data)
        # Counts at a fixed place tell where history, tokens and log-probs meet.
        turn.update(struct.pack("<qq", len(token_ids), policy_version))
        return turn.hexdigest()


def digest_turn(
    episode_id: str, history: np.ndarray, token_ids: np.ndarray, logprobs: np.ndarray, policy_version: int
) -> str:
    """The digest of one turn, sampled after a whole history."""
    digests = TurnDigests(episode_id)
    digests.read(history)
    return digests.digest(token_ids, logprobs, policy_version)
