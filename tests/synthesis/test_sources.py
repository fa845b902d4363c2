"""Tests of package sources: faults of the index, and cleanup after a killed download."""

import os
import signal
import socket
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from support.machine.host_processes import wait_until
from turnsmith.errors import UsageError
from turnsmith.synthesis.sources import check_source, fetch_source, find_fault

FETCH = "from turnsmith.synthesis.sources import fetch_source; fetch_source('shop==1.0')"
MAKE_FOLDER = "from turnsmith.runs.temporary import temporary_folder; temporary_folder('x').__enter__()"


@pytest.fixture
def use_index(monkeypatch):
    """Make an address the only package index of pip, asked once."""

    def use(address):
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"CONFIG_FILE": os.devnull, "RETRIES": "0", "INDEX_URL": address}.items():
            monkeypatch.setenv(f"PIP_{name}", value)

    return use


@pytest.fixture
def listener():
    """Open a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def serve(status, use_index):
    class Index(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(status)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Index)
    Thread(target=server.serve_forever, daemon=True).start()
    use_index(f"http://127.0.0.1:{server.server_port}/simple")
    return server


def test_an_unreachable_index_is_reported(use_index, listener):
    port = listener.getsockname()[1]
    listener.close()
    use_index(f"http://127.0.0.1:{port}/simple")
    with pytest.raises(UsageError, match=rf"shop==1\.0 .*:{port}/.*PIP_INDEX_URL"):
        fetch_source("shop==1.0")


@pytest.mark.parametrize(("status", "fault"), [(404, "take another version"), (403, "cannot reach")])
def test_http_errors_of_the_index_are_reported(use_index, status, fault):
    with serve(status, use_index) as server:
        try:
            with pytest.raises(UsageError, match=fault):
                fetch_source("shop==1.0")
        finally:
            server.shutdown()


def test_missing_pip_is_reported_before_fetching(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "pip", None)
    with pytest.raises(UsageError, match=r"shop==1\.0 needs pip.*ensurepip"):
        check_source("shop==1.0")
    check_source(str(tmp_path))


def test_a_missing_version_is_reported(use_index, tmp_path):
    page = tmp_path / "simple" / "shop" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<!DOCTYPE html><a href='shop-2.0.tar.gz'>shop-2.0.tar.gz</a>")
    use_index(f"file://{tmp_path}/simple")
    with pytest.raises(UsageError, match=r"no source of shop==1\.0: take"):
        fetch_source("shop==1.0")


def test_other_faults_keep_the_message_of_pip():
    assert find_fault("shop==1.0", "ERROR: metadata-generation-failed") == ""


def test_the_next_start_removes_files_of_a_killed_download(use_index, listener, tmp_path):
    use_index(f"http://127.0.0.1:{listener.getsockname()[1]}/simple")
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", FETCH], env=environment, start_new_session=True)
    wait_until(lambda: [*tmp_path.rglob("pip-*")])
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    subprocess.run([sys.executable, "-c", MAKE_FOLDER], env=environment, check=True)
    [place] = tmp_path.iterdir()
    assert [*place.iterdir()] == []
