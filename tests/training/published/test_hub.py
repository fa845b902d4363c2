"""Models of a hub: one download, then use without network; errors in one sentence."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import ThreadingHTTPServer

import pytest

from support.data_sets.small_hub import SmallHub
from turnsmith.config import RunConfig
from turnsmith.policies import PACKAGED
from turnsmith.recipes.paths import make_paths_absolute

pytestmark = pytest.mark.slow
NAME = "hub:shop/model"


@contextmanager
def serving(error=""):
    """Serve the shipped policy as the model of a hub, or an error. Yield the environment of commands that use the hub."""
    SmallHub.files = {file.name: file.read_bytes() for file in PACKAGED["tiny"].iterdir()} | {"pytorch_model.bin": b"x"}
    SmallHub.error = error
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
        finally:
            server.shutdown()
            SmallHub.error = ""


@pytest.fixture
def call(tmp_path):
    """Return a function that runs a command with a cache of its own."""

    def call(place, *arguments):
        command = [sys.executable, "-m", "turnsmith", *map(str, arguments)]
        place = {"HF_HOME": str(tmp_path / "cache")} | place
        return subprocess.run(command, env=os.environ | place, capture_output=True, text=True, timeout=120)

    return call


def test_a_downloaded_model_is_used_without_network(call, tmp_path):
    with serving() as place:
        got = call(place, "models", "get", NAME)
    assert got.stdout.startswith(f"{NAME}: use it as --model.path {NAME}"), got.stderr
    assert not list((tmp_path / "cache").rglob("pytorch_model.bin"))
    checked = call({"HF_ENDPOINT": "http://127.0.0.1:9"}, "doctor", "--model.path", NAME)
    assert checked.returncode == 0, checked.stderr


def test_a_model_is_downloaded_to_a_directory(call, tmp_path):
    with serving() as place:
        got = call(place, "models", "get", NAME, "--out", tmp_path / "model")
        assert got.returncode == 0, got.stderr
        assert (tmp_path / "model" / "model.safetensors").is_file()
        assert [path.name for path in tmp_path.glob("*model*")] == ["model"]
        again = call(place, "models", "get", NAME, "--out", tmp_path / "model")
    assert again.returncode == 2 and "exists already" in again.stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("GatedRepo", "needs the consent to its licence"),
        ("RepoNotFound", "cannot be fetched"),
        ("", "cannot be fetched"),
    ],
    ids=["gated", "unknown", "no network"],
)
def test_what_cannot_be_fetched_is_one_sentence(call, error, sentence):
    with serving(error) as place:
        got = call(place if error else {"HF_ENDPOINT": "http://127.0.0.1:9"}, "models", "get", NAME)
    assert got.returncode == 2 and sentence in got.stderr.splitlines()[-1], got.stderr


def test_a_model_that_was_not_downloaded_is_refused_with_the_command(call):
    checked = call({"HF_HUB_OFFLINE": "1"}, "doctor", "--model.path", NAME)
    assert checked.returncode == 2 and f"fetch it by `turnsmith models get {NAME}`" in checked.stderr


def test_the_name_of_a_hub_is_no_path():
    assert make_paths_absolute(RunConfig(model={"path": NAME})).model.path == NAME
