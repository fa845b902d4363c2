"""Requests to vLLM's route for token ids, and checks of its answers."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from turnsmith.engines.base import GenerateRequest, complete
from turnsmith.errors import EngineError
from turnsmith.types import Completion

ROUTE = "/inference/v1/generate"
"""Route of vLLM with token ids in and out. The completions route would not report the weight version of each token."""

NO_LOGPROB = -9_999.0
"""Value that vLLM reports in place of a missing or NaN log-prob."""

ROUNDING = 1e-5
"""Largest log-prob above 0 that counts as a rounding error."""


def write_turn(request: GenerateRequest, limit: int, policy_version: int, *, keeps_seeds: bool) -> dict[str, Any]:
    """Build vLLM's request for a turn of at most `limit` tokens. Send the request's seed only if the server `keeps_seeds`."""
    params = request.params
    return {
        "token_ids": request.token_ids.tolist(),
        "sampling_params": {
            "n": 1,
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k,
            "min_p": params.min_p,
            "repetition_penalty": params.repetition_penalty,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "max_tokens": limit,
            "min_tokens": 0,
            "stop_token_ids": sorted(request.stop_token_ids),
            "ignore_eos": True,  # the request's own stop tokens end a turn, and nothing else does
            "detokenize": False,
            "logprobs": 0,  # of the sampled tokens alone
            "seed": request.seed % 2**63 if keeps_seeds else None,
        },
        "cache_salt": f"policy-{policy_version}",
        "return_token_ids": True,
    }


def read_turn(
    answer: dict[str, Any], request: GenerateRequest, limit: int, policy_version: int, vocabulary: int
) -> Completion:
    """Read a turn that vLLM sampled. Raises EngineError for a wrong prompt, a wrong policy version or invalid tokens."""
    try:
        [choice] = answer["choices"]
        token_ids, scored, finish = choice["token_ids"], choice["logprobs"]["content"], choice["finish_reason"]
        spans, history = choice["weight_versions"], answer["prompt_token_ids"]
        logprobs = [entry["logprob"] for entry in scored]
        scored_ids = [entry["token_id"] for entry in scored]
    except (KeyError, TypeError, ValueError) as error:
        raise EngineError(f"vLLM's answer does not have the form of {ROUTE}: {type(error).__name__}: {error}") from None
    problem = (
        find_wrong_tokens(token_ids, scored_ids, history, request.token_ids, vocabulary)
        or find_wrong_logprobs(logprobs)
        or find_wrong_end(token_ids, finish, limit, request.stop_token_ids)
        or find_wrong_version(spans, len(token_ids), policy_version)
    )
    if problem:
        raise EngineError(f"vLLM's answer is refused: {problem}")
    return complete(request, token_ids, logprobs, finish, policy_version)


def find_wrong_tokens(
    token_ids: Sequence[int], scored: Sequence[int], history: Sequence[int], asked: np.ndarray, vocabulary: int
) -> str:
    """Describe a fault, else "": prompt `history` is not `asked`, log-probs are of other tokens `scored`, a token is invalid."""
    if not np.array_equal(history, asked):
        return f"its prompt of {len(history)} tokens is not the requested one of {len(asked)} tokens"
    if list(scored) != list(token_ids):
        return f"it has {len(token_ids)} tokens, but log-probs of {len(scored)} other tokens"
    strange = [token for token in token_ids if not 0 <= token < vocabulary]
    return f"token {strange[0]} is outside of the vocabulary of {vocabulary}" if strange else ""


def find_wrong_logprobs(logprobs: Sequence[float]) -> str:
    """Describe what is wrong with an answer's log-probs; empty if all are finite and not above 0."""
    for logprob in logprobs:
        if not isinstance(logprob, float | int) or not math.isfinite(logprob) or logprob <= NO_LOGPROB:
            return f"a log-prob is {logprob}"
        if logprob > ROUNDING:
            return f"a log-prob is {logprob}, above 0"
    return ""


def find_wrong_end(token_ids: Sequence[int], finish: str, limit: int, stops: frozenset[int]) -> str:
    """Describe what is wrong with the end of a sampled turn; empty if the reported finish reason fits its tokens."""
    if any(token in stops for token in token_ids[:-1]):
        return "it continues after a stop token"
    if not token_ids or len(token_ids) > limit:
        return f"it has {len(token_ids)} tokens, not 1 to {limit}"
    expected = "stop" if token_ids[-1] in stops else "length" if len(token_ids) == limit else "neither"
    return "" if finish == expected else f"its finish reason is {finish} after {len(token_ids)} of {limit} tokens"


def find_wrong_version(spans: list[dict[str, Any]] | None, num_tokens: int, policy_version: int) -> str:
    """Describe the weight versions that sampled a turn; empty if all tokens come from `policy_version`."""
    expected = [{"version": str(policy_version), "start": 0, "end": num_tokens}]
    return "" if spans == expected else f"its tokens were sampled by weights {spans}, not by version {policy_version}"
