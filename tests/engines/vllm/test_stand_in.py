"""vLLM engine with a stand-in server: real processes, sockets and weight transfers, but no model."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.engines.vllm_python import ask, assert_sampled_by, count_turns, want, write_vllm_python
from support.machine.host_processes import wait_for
from support.models.small_models import make_model, stream
from turnsmith.config import VllmConfig
from turnsmith.engines.base import SavedWeights, SharedWeights, StreamedWeights
from turnsmith.engines.vllm.engine import open_vllm
from turnsmith.errors import EngineError, UsageError

TESTS = Path(__file__).parents[2]
SECRET = "sk-nobody-shall-see"


@pytest.fixture
def faults(tmp_path):
    """Return the file that controls the stand-in's faults."""
    return tmp_path / "faults"


@pytest.fixture
def python(tmp_path):
    """Return an interpreter whose vLLM is the stand-in."""
    return write_vllm_python(tmp_path)


@pytest.fixture
def base(tmp_path):
    make_model().save_pretrained(tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def open_engine(python, base):
    opened = []

    def open_engine(*, sleeps=False, **changes):
        settings = {"python": python} | changes
        opened.append(open_vllm(VllmConfig(**settings), want(base, sleeps=sleeps)))
        return opened[-1]

    yield open_engine
    for engine in opened:
        engine.close()


def find_servers():
    """List server processes below this process's watchers."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    ours = [(int(pid), int(parent)) for pid, parent, args in rows if "turnsmith_vllm.server" in args]
    watchers = [pid for pid, parent in ours if parent == os.getpid()]
    return [pid for pid, parent in ours if parent in watchers], watchers


async def test_episodes_stay_with_their_replica(open_engine):
    engine = open_engine(replicas=2)
    answers = await asyncio.gather(*(engine.generate(ask(f"e{number}")) for number in range(6)))
    assert {len(a.token_ids) for a in answers} == {8} and {a.policy_version for a in answers} == {0}
    assert_sampled_by(make_model(), *answers)
    assert [engine._choose_replica(f"e{number}") for number in range(6)] == [0, 1] * 3
    await engine.generate(ask("e3"))
    assert engine._choose_replica("e3") == 1
    for number in (1, 3):
        engine.release(f"e{number}")
    assert engine._choose_replica("new") == 1


async def test_weights_arrive_from_memory_and_from_a_directory(open_engine, tmp_path):
    engine = open_engine()
    shared, saved = make_model(seed=1), make_model(seed=2)
    saved.save_pretrained(tmp_path / "new")
    streamed = make_model(seed=3)
    for source, model in [
        (SharedWeights(1, shared), shared),
        (stream(streamed, 2), streamed),
        (SavedWeights(3, tmp_path / "new"), saved),
    ]:
        await engine.load_weights(source)
        answer = await engine.generate(ask())
        assert engine.policy_version == answer.policy_version == source.policy_version
        assert_sampled_by(model, answer)
    with pytest.raises(UsageError, match=r"do not fit the model at .*layers"):
        await engine.load_weights(SharedWeights(4, make_model(num_hidden_layers=3)))
    answer = await engine.generate(ask())
    assert answer.policy_version == 3
    assert_sampled_by(saved, answer)


async def test_corrupted_update_is_sent_once_more_then_fails(open_engine, faults, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.vllm.replica.DYING_S", 0.1)
    engine = open_engine()
    faults.write_text("alter-1")
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    answer = await engine.generate(ask())
    assert answer.policy_version == 1
    assert_sampled_by(make_model(seed=1), answer)
    faults.write_text("alter-2")
    with pytest.raises(EngineError, match="does not hold the weights of policy version 2"):
        await engine.load_weights(SharedWeights(2, make_model(seed=2)))
    assert engine.policy_version == 1


async def test_weights_go_to_all_replicas_in_one_pass_and_once_more_to_one_that_failed(open_engine, faults):
    engine, passes = open_engine(replicas=2), []
    source = stream(make_model(seed=1), 1)

    def read():
        passes.append(1)
        return source.read()

    await engine.load_weights(StreamedWeights(1, source.shapes, read))
    assert len(passes) == 1
    faults.write_text("lose-1")
    await engine.load_weights(StreamedWeights(2, source.shapes, read))
    assert len(passes) == 3
    answers = await asyncio.gather(*(engine.generate(ask(f"e{number}")) for number in range(2)))
    assert {answer.policy_version for answer in answers} == {2}
    assert_sampled_by(make_model(seed=1), *answers)


async def test_unused_weights_are_detected(open_engine, faults):
    engine = open_engine()
    faults.write_text("forget")
    with pytest.raises(EngineError, match="does not hold the weights of policy version 1"):
        await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    with pytest.raises(EngineError, match=r"none.*not by version 0"):
        await engine.generate(ask())


async def test_stale_prefix_cache_is_detected(open_engine, faults):
    engine = open_engine()
    faults.write_text("remember")
    with pytest.raises(EngineError, match="did not clear its KV cache"):
        await engine.load_weights(SharedWeights(1, make_model(seed=1)))


async def test_a_sleeping_server_wakes_in_the_documented_order_around_new_weights(open_engine, faults):
    engine, routes = open_engine(sleeps=True, replicas=2), faults.with_name("routes")
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    routes.unlink()
    await engine.sleep()
    with pytest.raises(EngineError, match="sleeps until it gets new weights"):
        await engine.generate(ask())
    await engine.load_weights(SharedWeights(2, make_model(seed=2)))
    expected = [
        "/sleep?level=1",
        "/update_weight_version",
        "/wake_up?tags=weights",
        "/start_weight_update",
        "/update_weights",
        "/finish_weight_update",
        "/collective_rpc",
        "/wake_up?tags=kv_cache&tags=scheduling",
        "/collective_rpc",
        "/reset_prefix_cache",
        "/collective_rpc",
        "/update_weight_version",
    ]
    told = routes.read_text().splitlines()
    # Two servers are asked at once, but each only after its last answer.
    assert sorted(told) == sorted(2 * expected) and list(dict.fromkeys(told)) == list(dict.fromkeys(expected))
    answers = await asyncio.gather(*(engine.generate(ask(f"e{number}")) for number in range(2)))
    assert_sampled_by(make_model(seed=2), *answers)


async def test_weights_that_change_while_a_server_wakes_are_sent_once_more(open_engine, faults):
    engine, routes = open_engine(sleeps=True), faults.with_name("routes")
    faults.write_text("spoil-1")
    await engine.sleep()
    routes.unlink()
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    assert not faults.read_text() and routes.read_text().count("/start_weight_update") == 2
    assert_sampled_by(make_model(seed=1), await engine.generate(ask()))


async def test_a_server_that_dies_asleep_is_restarted_with_the_new_weights(open_engine):
    engine = open_engine(sleeps=True)
    await engine.sleep()
    await kill(find_servers()[0][0])
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    assert_sampled_by(make_model(seed=1), await engine.generate(ask()))


async def test_an_engine_that_does_not_sleep_stays_awake_and_none_sleeps_during_a_turn(open_engine, faults):
    engine = open_engine()
    await engine.sleep()
    assert_sampled_by(make_model(), await engine.generate(ask()))
    engine.close()
    sleeper = open_engine(sleeps=True)
    running = asyncio.create_task(sleeper.generate(ask(num=100)))
    await wait_for(lambda: count_turns(faults) == 2)
    with pytest.raises(EngineError, match="while turns were being sampled"):
        await sleeper.sleep()
    await running


async def test_turns_of_a_dead_server_are_sampled_again_with_the_same_weights(open_engine, faults):
    engine = open_engine()
    await engine.load_weights(SharedWeights(4, make_model(seed=1)))
    turns = [asyncio.create_task(engine.generate(ask(f"e{number}", num=100))) for number in range(5)]
    await wait_for(lambda: count_turns(faults) == 5)
    (server,), _ = find_servers()
    os.kill(server, signal.SIGKILL)
    answers = await asyncio.gather(*turns)
    assert {(len(a.token_ids), a.policy_version) for a in answers} == {(100, 4)}
    assert_sampled_by(make_model(seed=1), *answers)
    assert find_servers()[0] != [server]


async def test_dead_server_is_restarted_up_to_the_limit(open_engine, faults, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.vllm.replica.MAX_RESTARTS", 2)
    engine = open_engine()
    await kill(find_servers()[0][0])
    await engine.load_weights(SharedWeights(1, make_model(seed=1)))
    faults.write_text("die")
    answer = await engine.generate(ask())
    assert answer.policy_version == 1
    assert_sampled_by(make_model(seed=1), answer)
    faults.write_text("die")
    with pytest.raises(EngineError, match=r"gone.*restarted 2 times.*its log is /"):
        await engine.generate(ask())


async def test_turns_that_begin_while_a_server_starts_wait_for_it(open_engine):
    engine = open_engine()
    os.kill(find_servers()[0][0], signal.SIGKILL)
    turns = [asyncio.create_task(engine.generate(ask("first")))]
    while not turns[0].done():
        turns.append(asyncio.create_task(engine.generate(ask(f"e{len(turns)}"))))
        await asyncio.sleep(0.05)
    answers = await asyncio.gather(*turns)
    assert {answer.policy_version for answer in answers} == {0} and len(turns) > 3
    assert_sampled_by(make_model(), *answers)


async def test_a_server_that_hangs_counts_as_dead(open_engine, faults, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.vllm.client.TURN_TIMEOUT_S", 1.0)
    monkeypatch.setattr("turnsmith.engines.vllm.replica.MAX_RESTARTS", 1)
    engine = open_engine()
    faults.write_text("slow")
    with pytest.raises(EngineError, match="ReadTimeout"):
        await engine.generate(ask())


async def test_refusal_of_a_live_server_is_an_immediate_engine_error(open_engine, faults, monkeypatch):
    monkeypatch.setattr("turnsmith.engines.vllm.replica.DYING_S", 0.1)
    engine = open_engine()
    faults.write_text("refuse")
    with pytest.raises(EngineError, match="400: the prompt is not to its taste"):
        await engine.generate(ask())


async def test_weights_cannot_change_during_a_turn_and_close_removes_everything(open_engine, faults):
    engine = open_engine()
    running = asyncio.create_task(engine.generate(ask(num=100)))
    await wait_for(lambda: count_turns(faults) == 1)
    with pytest.raises(EngineError, match="while turns were being sampled"):
        await engine.load_weights(SharedWeights(1, make_model()))
    servers, watchers = find_servers()
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="closed during a turn"):
        await running
    with pytest.raises(EngineError, match="the engine is closed"):
        await engine.generate(ask())
    assert servers and watchers and await are_gone([*servers, *watchers])


@pytest.mark.slow
async def test_killing_the_parent_ends_all_server_processes(python, base, tmp_path):
    code = f"""
import sys, time
sys.path[:0] = {[str(TESTS), str(TESTS / "engines/vllm")]}
from pathlib import Path
from test_stand_in import *
engine = open_vllm(VllmConfig(python={python!r}), want(Path({str(base)!r})))
servers, watchers = find_servers()
print(*servers, *watchers, flush=True)
time.sleep(600)
"""
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, stdout=asyncio.subprocess.PIPE)
    processes = [int(word) for word in (await child.stdout.readline()).split()]
    assert len(processes) == 2
    child.kill()
    await child.communicate()
    assert await are_gone(processes)


async def kill(server):
    """Kill a server and wait until it is gone: httpx leaves a socket open if the server goes between two of its calls."""
    os.kill(server, signal.SIGKILL)
    assert await are_gone([server])


async def are_gone(processes, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not any(Path(f"/proc/{process}").exists() for process in processes):
            return True
        await asyncio.sleep(0.05)
    return False


def test_an_interpreter_without_vllm_or_with_another_is_refused(base, tmp_path, python, monkeypatch):
    for path, told in [("/no/such/python", "cannot run as an interpreter"), (sys.executable, "has no vLLM")]:
        with pytest.raises(UsageError, match=told):
            open_vllm(VllmConfig(python=path), want(base))
    monkeypatch.setattr("turnsmith.engines.vllm.server.SUPPORTED", "0.40.")
    with pytest.raises(UsageError, match=r"has vLLM 0.32.0, and 0.40.\* is supported"):
        open_vllm(VllmConfig(python=python), want(base))


def test_missing_server_raises_usage_error(base):
    with pytest.raises(UsageError, match=r"vLLM at http://127\.0\.0\.1:1 is gone"):
        open_vllm(VllmConfig(address="http://127.0.0.1:1"), want(base))


def test_error_of_a_failed_start_has_the_cause(base, open_engine):
    with pytest.raises(UsageError, match=r"vLLM ended while it started: .*its log is "):
        open_engine(arguments=["--dtype"])


def test_log_is_kept_in_a_given_folder_or_removed_on_close(base, python, tmp_path):
    for logs in (tmp_path / "servers", None):
        engine = open_vllm(VllmConfig(python=python), want(base), logs)
        log = engine._replicas[0]._server.log
        assert log.exists() and (logs is None or log == logs / "vllm-0.log")
        engine.close()
        assert log.exists() is (logs is not None)


def test_server_environment_has_no_secrets(open_engine, monkeypatch):
    monkeypatch.setenv("TALKER_KEY", SECRET)
    open_engine()
    servers, watchers = find_servers()
    environments = [Path(f"/proc/{pid}/environ").read_bytes() for pid in servers + watchers]
    assert len(environments) == 2 and not any(SECRET.encode() in each for each in environments)


def test_servers_with_wrong_settings_are_refused(base, python):
    for settings, wanted, told in [
        ({"arguments": ["--max-model-len=64"]}, {}, "has a context of 64 tokens, and max_context is 200"),
        ({"arguments": ["--logprobs-mode=processed_logprobs"]}, {}, "logprobs_mode = processed_logprobs"),
    ]:
        with pytest.raises(UsageError, match=told):
            open_vllm(VllmConfig(python=python, **settings), want(base, **wanted))
    assert find_servers() == ([], [])


def test_a_model_with_an_unsupported_head_width_is_refused(base, python, faults):
    faults.write_text("narrow")
    with pytest.raises(UsageError, match=r"attention heads of width 8, which .*base has"):
        open_vllm(VllmConfig(python=python), want(base))


def test_another_model_is_refused(base, python):
    wanted = want(base)
    object.__setattr__(wanted, "model", make_model(num_hidden_layers=3).config)
    with pytest.raises(UsageError, match="serves another model"):
        open_vllm(VllmConfig(python=python), wanted)
