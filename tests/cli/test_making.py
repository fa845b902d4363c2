import json
import signal
import subprocess
import sys

import pytest

from support.machine.host_processes import wait_until

SOURCE = "def grow(n):\n    while n < 10:\n        n += 1\n    return n\n\n\ndef halve(n):\n    return n // 2\n"
TESTS = "import sprout\n\n\ndef test_grow(): assert sprout.grow(3) == 10\n\n\ndef test_halve(): assert sprout.halve(9) == 4\n"


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "sprout").mkdir()
    (tmp_path / "sprout/sprout.py").write_text(SOURCE)
    (tmp_path / "sprout/test_sprout.py").write_text(TESTS)
    git = ["git", "-C", str(tmp_path / "sprout"), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path / "sprout"


@pytest.mark.slow
def test_package_tasks_are_made_and_kept_bugs_are_counted(turnsmith, checkout, tmp_path):
    out = tmp_path / "out"
    (tmp_path / "packages.txt").write_text(f"# one\n{checkout}\n{tmp_path}/nowhere\n")
    make = ("tasks", "make", "--packages", tmp_path / "packages.txt", "--num", "3", "--workers", "2", "--out", out)
    result = turnsmith(*make, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["num_tasks"] == 3 == sum(each["kept"] for each in report["mutators"].values())
    assert "name==version" in result.stderr
    again = turnsmith(*make)
    assert again.exit_code == 0 and "kept" in again.stdout and again.stdout.endswith(f"3 tasks in {out}\n")


@pytest.mark.slow
@pytest.mark.usefixtures("obeys_ctrl_c")
def test_ctrl_c_announces_that_the_same_command_continues(checkout, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "turnsmith", "tasks", "make", "--package", checkout, "--num", "99", "--out", out]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    wait_until(out.exists)
    process.send_signal(signal.SIGINT)
    stderr = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert stderr.count("the same command") == 1 and stderr.endswith("stopped\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--issues-from", "http://127.0.0.1:9"], "--issues-from, --issue-prompt and --issue-model"),
        (["--packages", "nowhere.txt"], "nowhere.txt (No such file"),
        (["--practice", "2"], "or --practice N"),
    ],
)
def test_contradicting_options_are_named(turnsmith, tmp_path, arguments, complaint):
    result = turnsmith("tasks", "make", "--package", "a==1", *arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2 and complaint in result.stderr and not (tmp_path / "out").exists()


@pytest.mark.parametrize("option", [("--workers", "2"), ("--issues-from", "http://127.0.0.1:9")])
def test_an_ignored_package_option_is_refused(turnsmith, tmp_path, option):
    result = turnsmith("tasks", "make", "--practice", "2", *option, "--out", tmp_path / "out")
    assert result.exit_code == 2 and option[0] in result.stderr and "--package" in result.stderr
