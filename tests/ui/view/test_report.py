"""Reports: one offline file, or a folder for a web server."""

import base64
import json
import re
import zlib

import pytest
from starlette.testclient import TestClient

from conftest import make_trajectory
from turnsmith.runs.journal import append_trajectory, arrays_file
from turnsmith.ui.view.opened import find_runs
from turnsmith.ui.view.report import MODULES, bundle_modules, write_report, write_site
from turnsmith.ui.view.server import PAGES, make_server

MANY = 10**9


@pytest.fixture
def run(run_folder):
    [run] = find_runs(run_folder.path).values()
    return run


def read_store(page):
    return json.loads(re.search(r'id="store">(.*?)</script>', page.read_text())[1])


def unpack(data):
    return json.loads(zlib.decompress(data if isinstance(data, bytes) else base64.b64decode(data)))


def test_a_report_answers_as_the_server_does(run, tmp_path):
    made = write_report(run, tmp_path / "report.html", MANY)
    store = read_store(tmp_path / "report.html")
    main, blocks = unpack(store["main"]), [unpack(block) for block in store["blocks"]]
    server = TestClient(make_server({"run": run}), base_url="http://localhost")
    addresses = {"": "", "run": "/run"}
    for name, answer in main["answers"].items():
        assert answer == server.get("/api/runs" + addresses.get(name, f"/run/{name}")).json()
    assert made.num_kept == made.num_all == len(main["rows"]) == 8
    for name, (block, position) in main["places"].items():
        assert blocks[block][position] == server.get(f"/api/runs/run/trajectories/{name}").json()


def test_the_limit_of_size_leaves_trajectories_out(run, run_folder, tmp_path):
    journal = run_folder.eval_trajectories("base", "practice")
    for index in range(40):
        noise = base64.b64encode(bytes((index * 37 + at * at) % 251 for at in range(60_000))).decode()
        append_trajectory(journal, make_trajectory(f"eval-base/task-{index}/0", observation=noise))
    whole, part = (write_report(run, tmp_path / f"{limit}.html", limit) for limit in (MANY, 100_000))
    assert part.num_kept < whole.num_kept == part.num_all == 48
    assert len(read_store(tmp_path / "100000.html")["blocks"]) == len(part.blocks)


def test_a_site_has_all_blocks_as_files(run, tmp_path):
    made = write_site(run, tmp_path / "site")
    assert read_store(tmp_path / "site" / "index.html")["blocks"] == len(made.blocks) == 1
    assert len(unpack((tmp_path / "site" / "blocks" / "0.deflate").read_bytes())) == made.num_all


def test_the_script_contains_each_module_once_and_in_order():
    assert {file.stem for file in PAGES.glob("*.js")} == set(MODULES)
    for position, name in enumerate(MODULES):
        imported = re.findall(r'from "\./(\w+)\.js"', (PAGES / f"{name}.js").read_text())
        assert set(imported) <= set(MODULES[:position])
    script = bundle_modules()
    assert "</script" not in script and not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_a_report_is_not_overwritten(turnsmith, run_folder, tmp_path):
    out = tmp_path / "report.html"
    assert turnsmith("report", run_folder.path, "--out", out).exit_code == 0
    before = out.read_bytes()
    again = turnsmith("report", run_folder.path, "--out", out)
    assert again.exit_code == 2 and "exists already" in again.output and out.read_bytes() == before


def test_a_damaged_trajectory_is_named_and_the_others_are_in_the_report(turnsmith, run_folder, tmp_path):
    arrays = arrays_file(run_folder.eval_trajectories("base", "practice"))
    arrays.write_bytes(arrays.read_bytes()[:-8])
    made = turnsmith("report", run_folder.path, "--out", tmp_path / "report.html")
    assert made.exit_code == 0 and "7 of 8 trajectories" in made.output
    assert "1 damaged trajectories are left out" in made.output and "are incomplete" in made.output


@pytest.mark.parametrize("place", ["file/report.html", "file/more/report.html"])
def test_a_place_that_cannot_be_written_is_refused(turnsmith, run_folder, tmp_path, place):
    (tmp_path / "file").write_text("")
    for option in ("--out", "--site"):
        refused = turnsmith("report", run_folder.path, option, tmp_path / place)
        assert refused.exit_code == 2 and "give a name in another folder" in refused.output


def test_a_report_of_something_else_is_refused(turnsmith, tmp_path):
    refused = turnsmith("report", tmp_path, "--out", tmp_path / "report.html")
    assert refused.exit_code == 2 and "is not a run" in refused.output and not (tmp_path / "report.html").exists()
