"""Stand-in server: its distribution over the vocabulary depends on its weights, and a token takes 10 ms.

The file named by STAND_IN_FAULTS contains words that select faults, read at each request:

- `die` ends the server during a turn,
- `slow` never answers a turn,
- `refuse` answers 400,
- `alter-N` changes the weights of the next N updates,
- `lose-N` refuses the next N updates, and leaves the sender's group,
- `forget` reports other weights than it received,
- `narrow` reports that it cannot compute the model's heads,
- `remember` reports that it keeps its prefixes,
- `spoil-N` changes the held weights at the next N wakes of the KV cache.

It appends the route of each control request to the file `routes` beside that file.
"""

import argparse
import asyncio
import importlib
import json
import os
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import numpy as np
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from turnsmith_vllm.group import WeightGroup, connect

from support.engines import plain_digests

ROPE = ("rope_type", "factor", "original_max_position_embeddings")
FAULTS = Path(os.environ["STAND_IN_FAULTS"])


def faults() -> list[str]:
    return FAULTS.read_text().split() if FAULTS.exists() else []


def drop_fault(fault: str, *others: str) -> None:
    FAULTS.write_text(" ".join([word for word in faults() if word != fault] + list(others)))


def has_fault(kind: str) -> bool:
    """Return True if the fault `kind-N` is selected, and count it down."""
    for fault in [word for word in faults() if word.startswith(f"{kind}-")]:
        left = int(fault.removeprefix(f"{kind}-")) - 1
        drop_fault(fault, *([f"{kind}-{left}"] if left else []))
        return True
    return False


class StandIn:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.config = json.loads(Path(options.model, "config.json").read_text()) | json.loads(options.hf_overrides)
        self.weights: dict[str, np.ndarray] = {}
        self.arriving: dict[str, np.ndarray] = {}
        self.version = "default"
        self.is_updating = False
        self.group: WeightGroup | None = None
        self.sleeping: set[str] = set()
        """Tags of the memory that is freed."""

    async def generate(self, request: Request) -> Response:
        asked = await request.json()
        if self.sleeping:
            return JSONResponse({"error": {"message": "the server sleeps"}}, 400)
        if "die" in faults():
            drop_fault("die")
            os._exit(1)
        if "slow" in faults():
            await asyncio.sleep(600)
        if "refuse" in faults():
            return JSONResponse({"error": {"message": "the prompt is not to its taste"}}, 400)
        with FAULTS.with_name("turns").open("a") as turns:
            turns.write("begun\n")
        sampling, version = asked["sampling_params"], self.version
        token_ids: list[int] = []
        scores = []
        while len(token_ids) < sampling["max_tokens"] and not (
            token_ids and token_ids[-1] in sampling["stop_token_ids"]
        ):
            logprobs = self.logprobs()
            token_ids += random.choices(range(len(logprobs)), np.exp(logprobs))
            scores.append({"token_id": token_ids[-1], "logprob": logprobs[token_ids[-1]]})
            await asyncio.sleep(0.01)
        choice = {
            "index": 0,
            "token_ids": token_ids,
            "logprobs": {"content": scores},
            "finish_reason": "stop" if token_ids[-1] in sampling["stop_token_ids"] else "length",
            "weight_versions": [{"version": version, "start": 0, "end": len(token_ids)}],
        }
        return JSONResponse({"prompt_token_ids": asked["token_ids"], "choices": [choice], "pid": os.getpid()})

    def logprobs(self) -> np.ndarray:
        """Return the float64 log-probs of all tokens: a softmax over sums of embeddings, independent of the history."""
        sums = self.weights["model.embed_tokens.weight"].sum(1, dtype=np.float64)
        return sums - np.logaddexp.reduce(sums)

    async def ask_workers(self, request: Request) -> Response:
        method = (await request.json())["method"]
        return JSONResponse({"results": [{"turnsmith_settings": self.settings, "turnsmith_held": self.held}[method]()]})

    def settings(self) -> dict:
        shape = {name: self.config[name] for name in ("vocab_size", "hidden_size", "num_hidden_layers")}
        return {
            "version": "0.32.0",
            "device": "cpu",
            "dtype": self.options.dtype,
            "max_model_len": self.options.max_model_len,
            "shape": shape,
            "rope": {name: self.config["rope_parameters"].get(name) for name in ROPE},
            "logprobs_mode": self.options.logprobs_mode,
            "sampling_defaults": {},
            "prefix_caching": True,
            "num_workers": 1,
            "quantization": None,
            "speculation": False,
            "unserved_heads": [8] if "narrow" in faults() else [],
        }

    def held(self) -> dict[str, int]:
        stale = {name: array + 1 for name, array in self.weights.items()}
        return plain_digests.digest_layers(stale if "forget" in faults() else self.weights)

    async def join(self, request: Request) -> Response:
        told = (await request.json())["init_info"]
        store = await asyncio.to_thread(connect, told["host"], told["port"])
        cpu = torch.device("cpu")
        self.group = await asyncio.to_thread(WeightGroup, told["backend"], cpu, store, 1, told["size"])
        return JSONResponse({})

    async def start(self, request: Request) -> Response:
        if self.is_updating or "weights" in self.sleeping:
            return JSONResponse({"error": {"message": "a weight update is already active, or the weights sleep"}}, 500)
        self.is_updating, self.arriving = True, {}
        return JSONResponse({})

    async def update(self, request: Request) -> Response:
        told = (await request.json())["update_info"]
        if not self.is_updating or not self.group or has_fault("lose"):
            self.group, self.is_updating = None, False
            return JSONResponse({"error": {"message": "the weights did not arrive"}}, 500)
        dtype = getattr(torch, told["dtype"])
        tensors = await asyncio.to_thread(self.group.receive, told["shapes"], dtype)
        arrays = [tensor.numpy() for tensor in tensors]
        if has_fault("alter"):
            arrays[0].reshape(-1)[0] += 1
        self.arriving |= dict(zip(told["names"], arrays, strict=True))
        return JSONResponse({})

    async def finish(self, request: Request) -> Response:
        self.is_updating, self.weights = False, self.arriving
        return JSONResponse({})

    async def sleep(self, request: Request) -> Response:
        self.sleeping = {"weights", "kv_cache"}
        return JSONResponse({"level": int(request.query_params["level"])})

    async def wake(self, request: Request) -> Response:
        """Wake tags as vLLM does: with a tag that is awake, nothing happens."""
        tags = {tag for tag in request.query_params.getlist("tags") if tag != "scheduling"}
        if tags <= self.sleeping:
            self.sleeping -= tags
            if "kv_cache" in tags and has_fault("spoil"):
                self.weights["model.embed_tokens.weight"][0, 0] += 1
        return JSONResponse({"status": "sleeping" if self.sleeping else "awake"})

    async def set_version(self, request: Request) -> Response:
        self.version = (await request.json())["new_version"]
        return JSONResponse({})

    async def succeed(self, request: Request) -> Response:
        return JSONResponse({"success": "remember" not in faults()})


def record(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Record the route and query of each control request before it is answered."""

    async def recorded(request: Request) -> Response:
        if request.url.path != "/inference/v1/generate":
            with FAULTS.with_name("routes").open("a") as routes:
                routes.write(f"{request.url.path}?{request.url.query}".rstrip("?") + "\n")
        return await handler(request)

    return recorded


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--model", "--dtype", "--logprobs-mode"):
        parser.add_argument(name, required=True)
    for name in ("--uds", "--host", "--middleware"):
        parser.add_argument(name)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--max-model-len", type=int, required=True)
    parser.add_argument("--hf-overrides", default="{}")
    parser.add_argument("--enforce-eager", action="store_true")
    options, _ = parser.parse_known_args()
    server = StandIn(options)
    posts = {
        "/inference/v1/generate": server.generate,
        "/collective_rpc": server.ask_workers,
        "/init_weight_transfer_engine": server.join,
        "/start_weight_update": server.start,
        "/update_weights": server.update,
        "/finish_weight_update": server.finish,
        "/reset_prefix_cache": server.succeed,
        "/update_weight_version": server.set_version,
        "/sleep": server.sleep,
        "/wake_up": server.wake,
    }
    routes = [Route(path, record(handler), methods=["POST"]) for path, handler in posts.items()]
    app = Starlette(routes=[*routes, Route("/health", server.succeed)])
    if options.middleware:
        module, _, name = options.middleware.rpartition(".")
        app.add_middleware(getattr(importlib.import_module(module), name))
    place = {"uds": options.uds} if options.uds else {"host": options.host, "port": options.port}
    uvicorn.run(app, **place, log_level="warning")
