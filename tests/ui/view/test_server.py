"""Pages of `turnsmith view`: data, stable addresses, refusals, and security headers, by real requests to the application."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.testclient import TestClient

from conftest import HOSTILE, make_trajectory
from turnsmith.errors import UsageError
from turnsmith.policies import locate
from turnsmith.runs.folder import RunFolder, claim, locked, read_json, write_json
from turnsmith.runs.journal import append_start, append_trajectory, arrays_file
from turnsmith.types import Outcome
from turnsmith.ui.reading import load_tokenizer
from turnsmith.ui.view import overview
from turnsmith.ui.view.answers import PAGE_SIZE
from turnsmith.ui.view.opened import OpenedRun, find_runs
from turnsmith.ui.view.server import PAGES, make_server


def open_pages(path):
    return TestClient(make_server(find_runs(path)), base_url="http://127.0.0.1:8321")


@pytest.fixture
def journal(run_folder):
    """Return a journal of a run, with two trajectories, one of them hostile."""
    journal = run_folder.eval_trajectories("base", "practice")
    journal.unlink(missing_ok=True)
    arrays_file(journal).unlink(missing_ok=True)
    append_trajectory(journal, make_trajectory("eval-base/a-1/0"))
    append_trajectory(journal, make_trajectory("eval-base/b-1/0", Outcome.UNRESOLVED, observation=HOSTILE))
    return journal


@pytest.fixture
def pages(run_folder, journal):
    return open_pages(run_folder.path)


def list_table(pages, **choice):
    choice = {"journal": "evals/base/practice"} | choice
    return pages.get("/api/runs/run/trajectories", params=choice).json()


def test_the_overview_has_results_iterations_and_outcomes(pages, run_folder):
    data = pages.get("/api/runs/run").json()
    assert {row["stage"] for row in data["results"]} == {"base", "rft", "stage1", "stage2"}
    assert data["iterations"] and data["alarms"] == []
    episodes = pages.get("/api/runs/run/episodes").json()
    assert episodes["faults"] == []
    assert episodes["outcomes"]["evals/base/practice"] == {"resolved": 1, "unresolved": 1}
    assert sum(episodes["histograms"]["turns"]["counts"]) == 8
    [run] = pages.get("/api/runs").json()
    assert (run["name"], run["state"], run["latest"]["stage"]) == ("run", data["state"], "stage2")


def test_numbers_that_json_lacks_are_null(pages, run_folder):
    file = run_folder.iteration("stage1", 0).metrics
    write_json(file, read_json(file) | {"loss/entropy": float("nan"), "loss/total": float("-inf")})
    text = pages.get("/api/runs/run").text
    [metrics] = [each["metrics"] for each in json.loads(text)["iterations"] if each["stage"] == "stage1"][:1]
    assert metrics["loss/entropy"] is metrics["loss/total"] is None and "NaN" not in text


def test_the_curves_are_a_picture_that_is_equal_for_equal_data(pages):
    first, second = (pages.get("/api/runs/run/curves.svg") for _ in range(2))
    assert first.headers["content-type"] == "image/svg+xml" and b"<svg" in first.content
    assert first.content == second.content


def test_trajectories_are_filtered_and_come_in_pages(pages, journal):
    assert [row["id"] for row in list_table(pages)["trajectories"]] == ["eval-base/a-1/0", "eval-base/b-1/0"]
    assert [row["id"] for row in list_table(pages, outcome="resolved")["trajectories"]] == ["eval-base/a-1/0"]
    assert [row["id"] for row in list_table(pages, text="b-1")["trajectories"]] == ["eval-base/b-1/0"]
    none = list_table(pages, text="c-1")
    assert (none["total"], none["trajectories"]) == (0, [])
    assert "evals/base/practice" in none["journals"] and none["outcomes"] == ["resolved", "unresolved"]
    for index in range(1, PAGE_SIZE):
        append_trajectory(journal, make_trajectory(f"eval-base/a-1/{index}"))
    first, second = (list_table(pages, first=number) for number in (0, PAGE_SIZE))
    assert first["total"] == second["total"] == PAGE_SIZE + 1
    assert (len(first["trajectories"]), len(second["trajectories"])) == (PAGE_SIZE, 1)


def test_a_trajectory_has_its_turns_patch_and_tests(pages):
    row = list_table(pages)["trajectories"][1]
    data = pages.get(f"/api/runs/run/trajectories/{row['journal']}/{row['start']}").json()
    assert data["trajectory_id"] == row["id"] and data["turns"][0]["observation"] == HOSTILE
    assert data["patch"].startswith("diff --git") and data["grade"]["statuses"]
    assert "prompt_text" in data or "tokenizer" in data["prompt_error"]


def test_the_sampled_tokens_of_each_turn_have_text_and_log_prob(pages, journal):
    tokens = pages.get("/api/runs/run/trajectories/evals/base/practice/0/tokens").json()["turns"]
    tokenizer = load_tokenizer(locate("tiny") / "tokenizer.json")
    first, second = make_trajectory("eval-base/a-1/0").turns
    assert [len(turn) for turn in tokens] == [first.end - first.start, second.end - second.start]
    assert tokens[0] == [[tokenizer.decode([3]), -1.0, False, None], [tokenizer.decode([4]), -0.5, False, None]]


def test_messages_have_no_tokens(pages, journal):
    start = journal.stat().st_size
    append_trajectory(journal, make_trajectory("eval-base/a-1/1").grow(form="messages"))
    assert pages.get(f"/api/runs/run/trajectories/evals/base/practice/{start}/tokens").json()["turns"] == []


def test_a_live_run_is_followed_and_unchanged_data_are_not_sent_again(pages, journal):
    first = pages.get("/api/runs/run/episodes")
    known = {"If-None-Match": first.headers["etag"]}
    assert pages.get("/api/runs/run/episodes", headers=known).status_code == 304
    append_trajectory(journal, make_trajectory("eval-base/a-1/1"))
    second = pages.get("/api/runs/run/episodes", headers=known)
    assert second.status_code == 200 and second.json()["outcomes"]["evals/base/practice"]["resolved"] == 2


def test_damaged_files_are_named_and_the_rest_is_shown(pages, run_folder, journal):
    with journal.open("ab") as file:
        file.write(b"{}\n")
    data = pages.get("/api/runs/run/episodes").json()
    assert data["outcomes"]["evals/base/practice"] == {"resolved": 1, "unresolved": 1}
    assert len(data["faults"]) == 1 and "is damaged at byte" in data["faults"][0]
    arrays = arrays_file(journal)
    arrays.write_bytes(arrays.read_bytes()[:-1])
    start = list_table(pages)["trajectories"][1]["start"]
    refused = pages.get(f"/api/runs/run/trajectories/evals/base/practice/{start}")
    assert refused.status_code == 409 and "incomplete" in refused.json()["error"]


def test_each_step_is_different_or_noise(pages, run_folder):
    steps = pages.get("/api/runs/run/steps").json()
    assert [(step["before"], step["after"]) for step in steps if step["task_set"] == "practice"] == [
        ("base", "rft"), ("rft", "stage1"), ("stage1", "stage2"),
    ]  # fmt: skip
    assert {step.get("verdict", step.get("error")) for step in steps} <= {"different", "noise", "no task in common"}


def test_configurations_are_flat_and_compared(tmp_path, run_folder):
    other = run_folder.path.parent / "other"
    claim(RunFolder(other), {**read_json(run_folder.config), "seed": 7})
    rows = open_pages(run_folder.path.parent).get("/api/runs/run/configuration?other=other").json()["rows"]
    assert [row for row in rows if row[1] != row[2]] == [["seed", 0, 7]]
    assert "stages.0.iterations" in {key for key, *_ in rows}


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("/api/runs/other", 404),
        ("/api/runs/run/configuration?other=other", 404),
        ("/api/runs/run/group?journal=../secret&task=secret", 409),
        ("/api/runs/run/trajectories/evals/base/practice/7", 409),
        ("/api/runs/run/trajectories/../../secret/0", 404),
        ("/api/runs/run/trajectories/%2e%2e%2f%2e%2e%2fsecret/0", 409),
        ("/api/runs/%2e%2e/trajectories", 404),
        ("/api/runs/run/trajectories?first=-1", 400),
        ("/%2e%2e/server.py", 404),
        ("/..%2f..%2fserver.py", 404),
    ],
)
def test_a_request_for_something_else_gets_one_sentence(pages, run_folder, address, status):
    (run_folder.path.parent / "secret").mkdir()
    append_trajectory(run_folder.path.parent / "secret" / "trajectories.jsonl", make_trajectory("x/secret/0"))
    answer = pages.get(address)
    assert answer.status_code == status and answer.json()["error"]


def test_only_get_requests_with_a_host_header_of_this_machine_are_answered(pages):
    for host in ("evil.example", "127.0.0.1.evil.example:8321", ""):
        assert pages.get("/api/runs", headers={"Host": host}).status_code == 400
    for host in ("localhost:8321", "127.0.0.1", "[::1]:8321"):
        assert pages.get("/api/runs", headers={"Host": host}).status_code == 200
    assert pages.post("/api/runs").status_code == 405


def test_every_answer_forbids_inline_scripts_and_other_hosts(pages):
    for address in ("/", "/main.js", "/api/runs", "/api/runs/other"):
        headers = pages.get(address).headers
        assert headers["x-content-type-options"] == "nosniff"
        policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'" and policy["script-src"] == policy["connect-src"] == "'self'"


def test_the_pages_never_turn_text_into_html():
    for file in PAGES.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", file.read_text()), file
    assert not re.search(r"<script(?! type=\"module\" src=)|\son\w+=|style=", (PAGES / "index.html").read_text())


def test_a_folder_of_runs_lists_them_and_names_the_unreadable_one(run_folder):
    claim(RunFolder(run_folder.path.parent / "broken"), {})
    (run_folder.path.parent / "broken" / "config.json").write_text("{")
    (run_folder.path.parent / "other").mkdir()
    run_folder.log.write_text("2026-01-01 00:00:00 first\n2026-01-01 00:00:01 second line\n")
    broken, good = open_pages(run_folder.path.parent).get("/api/runs").json()
    assert "is damaged" in broken["error"] and good["message"] == "second line"
    assert (good["latest"]["stage"], good["latest"]["task_set"]) == ("stage2", "practice")


def test_a_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(UsageError, match="neither a run nor a folder of runs"):
        find_runs(tmp_path)


def test_lone_surrogates_and_null_bytes_reach_the_page_as_they_are(run_folder, journal):
    text = "\ud800\0</script><script>alert(1)</script>"
    line = journal.read_text().splitlines()[0].replace('"observation":"ok"', f'"observation":{json.dumps(text)}')
    journal.write_text(line + "\n")
    data = open_pages(run_folder.path).get("/api/runs/run/trajectories/evals/base/practice/0").json()
    assert data["turns"][0]["observation"] == text


ORDER = {"journal": "evals/base/practice", "start": 0, "turn": 2, "messages": ["```command\nls\n```"]}


def continue_at_once(folder, trajectory, order):
    """Return the trajectory with its first turns, instead of continuing it."""
    return trajectory.grow(turns=trajectory.turns[: order.turn])


@pytest.fixture
def continuing(run_folder, journal):
    return TestClient(make_server(find_runs(run_folder.path), continue_at_once), base_url="http://127.0.0.1:8321")


def test_an_episode_is_continued_on_request(continuing):
    answer = continuing.post("/api/runs/run/continue", json=ORDER)
    assert answer.status_code == 200 and len(answer.json()["turns"]) == 2


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"origin": "http://other.example"}, ORDER, 403),
        ({"origin": "null"}, ORDER, 403),
        ({"content-type": "text/plain"}, ORDER, 403),
        ({"host": "other.example"}, ORDER, 400),
        ({}, ORDER | {"start": 7}, 409),
        ({}, ORDER | {"turn": 0}, 409),
        ({}, ORDER | {"messages": "ls"}, 409),
        ({}, ORDER | {"extra": 1}, 409),
    ],
)
def test_other_sites_and_wrong_requests_continue_nothing(continuing, headers, body, status):
    answer = continuing.post("/api/runs/run/continue", json=body, headers=headers)
    assert answer.status_code == status and (status == 400 or answer.json()["error"])


def test_a_server_that_cannot_continue_says_so(pages):
    assert "install the extra train" in pages.post("/api/runs/run/continue", json=ORDER).json()["error"]


def test_a_token_opens_the_pages_and_nothing_else_does(run_folder):
    client = TestClient(make_server(find_runs(run_folder.path), token="secret"), base_url="http://machine:8321")
    assert [client.get(address).status_code for address in ("/", "/api/runs", "/api/runs?token=other")] == [401] * 3
    assert client.get("/?token=secret").status_code == 200
    assert client.get("/api/runs").json()[0]["name"] == "run"


def test_the_cookie_of_the_token_is_hidden_from_scripts_and_other_sites(run_folder):
    client = TestClient(make_server(find_runs(run_folder.path), token="secret"), base_url="http://machine:8321")
    redirect = client.get("/?token=secret", follow_redirects=False)
    assert redirect.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=strict"} <= set(redirect.headers["set-cookie"].split("; "))


def test_running_episodes_are_listed_until_they_end(pages, run_folder):
    journal = run_folder.iteration("stage2", 5).trajectories
    journal.parent.mkdir(parents=True)
    first, second = (make_trajectory(f"stage2-0005/a-1/{index}") for index in range(2))
    append_start(journal, first)
    append_start(journal, second)
    assert pages.get("/api/runs/run/running").json() == []
    run_folder.results.unlink(missing_ok=True)
    with locked(run_folder):
        assert [row["id"] for row in pages.get("/api/runs/run/running").json()] == [
            first.trajectory_id,
            second.trajectory_id,
        ]
        append_trajectory(journal, first)
        assert [row["id"] for row in pages.get("/api/runs/run/running").json()] == [second.trajectory_id]


def test_a_picture_is_drawn_once_for_all_windows_and_again_after_an_iteration(run_folder, monkeypatch):
    drawn = []
    monkeypatch.setattr(overview, "render_curves", lambda folder: drawn.append(folder) or b"svg")
    run = OpenedRun(run_folder)
    with ThreadPoolExecutor(3) as pool:
        assert [*pool.map(overview.draw_curves, [run] * 3)] == [b"svg"] * 3
    assert len(drawn) == 1
    file = run_folder.iteration("stage1", 0).metrics
    write_json(file, read_json(file) | {"loss/entropy": 9.0})
    overview.draw_curves(run)
    assert len(drawn) == 2


def test_a_trajectory_is_shown_without_its_issue_if_the_configuration_is_damaged(pages, run_folder):
    run_folder.config.write_text("{")
    shown = pages.get("/api/runs/run/trajectories/evals/base/practice/0").json()
    assert shown["issue"] is None and shown["turns"] and "is damaged" in shown["prompt_error"]
