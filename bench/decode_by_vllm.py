"""vLLM side of `decode.py`, run by an interpreter that has vLLM but not Turnsmith.

    python decode_by_vllm.py MODEL EPISODES TURNS SAMPLED OBSERVED THREADS DTYPE

The script prints the seconds as a line of JSON: once for loading the model, then once for each seed read from stdin.
"""

import json
import os
import random
import sys
import time


def main() -> None:
    model, *counts, dtype = sys.argv[1:]
    episodes, turns, sampled, observed, threads = map(int, counts)
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}", "VLLM_CPU_KVCACHE_SPACE": "2"}
    began = time.perf_counter()
    import vllm

    engine = vllm.LLM(
        model,
        dtype=dtype,
        max_model_len=turns * (sampled + observed),
        max_num_seqs=episodes,
        enable_prefix_caching=True,
        generation_config="vllm",
        disable_log_stats=True,
    )
    vocabulary = engine.llm_engine.model_config.get_vocab_size()
    params = vllm.SamplingParams(max_tokens=sampled, min_tokens=sampled, ignore_eos=True, logprobs=0, detokenize=False)
    tell(time.perf_counter() - began)
    for line in sys.stdin:
        rng = random.Random(int(line))
        given = [[[rng.randrange(vocabulary) for _ in range(observed)] for _ in range(turns)] for _ in range(episodes)]
        engine.reset_prefix_cache()
        began = time.perf_counter()
        histories: list[list[int]] = [[] for _ in given]
        for turn in range(turns):
            histories = [history + each[turn] for history, each in zip(histories, given, strict=True)]
            prompts = [{"prompt_token_ids": history} for history in histories]
            answers = engine.generate(prompts, params, use_tqdm=False)
            histories = [
                history + list(answer.outputs[0].token_ids) for history, answer in zip(histories, answers, strict=True)
            ]
        tell(time.perf_counter() - began)


def tell(seconds: float) -> None:
    print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
