"""Requests to vLLM's token route, and refused answers."""

from copy import deepcopy

import numpy as np
import pytest

from turnsmith.engines.base import GenerateRequest
from turnsmith.engines.vllm.turns import read_turn, write_turn
from turnsmith.errors import EngineError
from turnsmith.types import SamplingParams

HISTORY = np.array([3, 1, 4], np.int32)
ANSWER = {
    "prompt_token_ids": [3, 1, 4],
    "choices": [
        {
            "token_ids": [5, 9, 2],
            "logprobs": {"content": [{"token_id": t, "logprob": -0.5} for t in (5, 9, 2)]},
            "finish_reason": "stop",
            "weight_versions": [{"version": "7", "start": 0, "end": 3}],
        }
    ],
}


def ask(**changes):
    return GenerateRequest("a", HISTORY, 8, frozenset({2}), 2**63 + 5, **changes)


def read(answer, limit=8, **asked):
    return read_turn(answer, ask(**asked), limit, policy_version=7, vocabulary=10)


def test_request_disables_all_filters_of_the_server():
    body = write_turn(ask(), 5, 7, keeps_seeds=False)
    assert body["token_ids"] == [3, 1, 4] and body["cache_salt"] == "policy-7" and body["return_token_ids"]
    asked = body["sampling_params"]
    neutral = {"temperature": 1, "top_p": 1, "top_k": 0, "min_p": 0, "repetition_penalty": 1}
    neutral |= {
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "min_tokens": 0,
        "n": 1,
        "ignore_eos": True,
        "seed": None,
    }
    assert neutral.items() <= asked.items()
    assert (asked["max_tokens"], asked["stop_token_ids"], asked["logprobs"]) == (5, [2], 0)


def test_request_has_a_seed_if_supported_and_evaluation_filters():
    params = SamplingParams(temperature=0.7, top_p=0.9)
    asked = write_turn(ask(params=params, trains=False), 5, 7, keeps_seeds=True)["sampling_params"]
    assert (asked["seed"], asked["temperature"], asked["top_p"]) == (5, 0.7, 0.9)


def test_valid_answer_is_read():
    completion = read(ANSWER)
    assert completion.token_ids.tolist() == [5, 9, 2] and completion.logprobs.tolist() == [-0.5] * 3
    assert (completion.finish_reason, completion.policy_version) == ("stop", 7)


def cut(answer, count):
    choice = answer["choices"][0]
    choice["token_ids"], choice["logprobs"]["content"] = (
        choice["token_ids"][:count],
        choice["logprobs"]["content"][:count],
    )
    choice["weight_versions"][0]["end"] = count


FAULTS = {
    "no log-probs": (lambda a, c: c.update(logprobs=None), "not have the form of"),
    "two choices": (lambda a, c: a["choices"].append(c), "not have the form of"),
    "another history": (lambda a, c: a.update(prompt_token_ids=[3, 1]), "prompt of 2 tokens"),
    "other tokens scored": (lambda a, c: c["logprobs"]["content"][1].update(token_id=8), "other tokens"),
    "a log-prob too few": (lambda a, c: c["logprobs"]["content"].pop(), "other tokens"),
    "outside of the vocabulary": (
        lambda a, c: (c["token_ids"].__setitem__(0, 10), c["logprobs"]["content"][0].update(token_id=10)),
        "vocabulary of 10",
    ),
    "not a number": (lambda a, c: c["logprobs"]["content"][0].update(logprob=float("nan")), "a log-prob is nan"),
    "missing, as vLLM has it": (lambda a, c: c["logprobs"]["content"][0].update(logprob=-9999.0), "a log-prob is"),
    "nothing": (lambda a, c: c["logprobs"]["content"][0].update(logprob=None), "a log-prob is None"),
    "above zero": (lambda a, c: c["logprobs"]["content"][0].update(logprob=0.1), "above 0"),
    "too long": (lambda a, c: None, "3 tokens, not 1 to 2"),
    "empty": (lambda a, c: cut(a, 0), "0 tokens"),
    "ended early": (lambda a, c: (cut(a, 2), c.update(finish_reason="length")), "finish reason is length after 2 of 8"),
    "cut off": (lambda a, c: (cut(a, 2), c.update(finish_reason="abort")), "finish reason is abort"),
    "stop by another name": (lambda a, c: c.update(finish_reason="length"), "finish reason is length"),
    "weights of before": (lambda a, c: c["weight_versions"][0].update(version="6"), "not by version 7"),
    "weights that changed": (
        lambda a, c: c.update(
            weight_versions=[{"version": "7", "start": 0, "end": 2}, {"version": "8", "start": 2, "end": 3}]
        ),
        "not by version 7",
    ),
    "weights unknown": (lambda a, c: c.update(weight_versions=None), "not by version 7"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_invalid_answers_are_refused(name):
    spoil, told = FAULTS[name]
    answer = deepcopy(ANSWER)
    spoil(answer, answer["choices"][0])
    with pytest.raises(EngineError, match=told):
        read(answer, limit=2 if name == "too long" else 8)


def test_turn_that_continues_after_a_stop_token_is_refused():
    answer = deepcopy(ANSWER)
    answer["choices"][0]["token_ids"] = [2, 9, 2]
    answer["choices"][0]["logprobs"]["content"][0]["token_id"] = 2
    with pytest.raises(EngineError, match="continues after a stop token"):
        read(answer)
