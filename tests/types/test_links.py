"""Digests of turns, which depend on all their arrays and on nothing else."""

import hashlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.types import TurnDigests, digest_turn

TURN = ("rl-0001/a/0", np.array([5, 6, 7], np.int32), np.array([8, 2], np.int32), np.array([-1.2, -0.1], np.float32), 3)


def digest_plainly(episode_id, history, token_ids, logprobs, policy_version):
    """Compute the digest of concatenated bytes with the standard library."""
    name = episode_id.encode()
    counts = b"".join(number.to_bytes(8, "little", signed=True) for number in (len(token_ids), policy_version))
    ids = b"".join(int(token).to_bytes(4, "little", signed=True) for token in (*history, *token_ids))
    tokens = len(name).to_bytes(8, "little") + name + ids
    parts = tokens + counts[:8], tokens + np.asarray(logprobs, "<f4").tobytes() + counts
    return "".join(hashlib.blake2b(part, digest_size=8).hexdigest() for part in parts)


@given(st.text(max_size=5), st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=6), st.integers(0, 99))
def test_incremental_digests_equal_single_ones(name, lengths, seed):
    rng, history, digests = np.random.default_rng(seed), np.empty(0, np.int32), TurnDigests(name)
    for version, (num_given, num_sampled) in enumerate(lengths):
        given_ids, sampled = (rng.integers(-(2**31), 2**31, num).astype(np.int32) for num in (num_given, num_sampled))
        logprobs = rng.normal(size=num_sampled).astype(np.float32)
        history = np.concatenate([history, given_ids])
        digests.read(given_ids)
        told = digests.digest(sampled, logprobs, version)
        assert told == digest_turn(name, history, sampled, logprobs, version)
        assert told == digest_plainly(name, history, sampled, logprobs, version)
        history = np.concatenate([history, sampled])
        digests.read(sampled)


def test_any_changed_bit_or_position_changes_the_digest():
    name, history, token_ids, logprobs, version = TURN
    others = [
        TURN,
        ("rl-0001/a/1", history, token_ids, logprobs, version),
        (name, history[::-1], token_ids, logprobs, version),
        (name, history[:2], np.array([7, 8, 2]), logprobs, version),
        (name, np.array([5, 6, 7, 8]), token_ids[1:], logprobs, version),
        (name, history, token_ids, np.nextafter(logprobs, np.float32(0)), version),
        (name, history, token_ids, logprobs[::-1], version),
        (name, history, token_ids, logprobs, version + 1),
    ]
    assert len({digest_turn(*turn) for turn in others}) == len(others)


def test_strided_arrays_have_the_same_digest():
    name, history, token_ids, logprobs, version = TURN
    strided = np.repeat(history, 2)[::2], np.repeat(token_ids, 3)[::3], np.repeat(logprobs, 2)[::2]
    assert digest_turn(name, *strided, version) == digest_turn(*TURN)
