import pytest
from packaging.requirements import Requirement

from turnsmith.cli.machine import examine_disk, examine_git, examine_memory, examine_package


def test_memory_is_what_the_kernel_says_is_available(tmp_path):
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n")
    finding = examine_memory(meminfo)
    assert (finding.ok, finding.detail) == (False, "1.0 GB free, 3 GB are needed")
    assert "rollouts.concurrency" in finding.remedy
    meminfo.write_text("MemAvailable:    8388608 kB\n")
    assert examine_memory(meminfo).ok


@pytest.mark.parametrize(
    ("wanted", "is_ok"), [("pytest>=1", True), ("pytest>=1000", False), ("no-such-package", False)]
)
def test_a_package_must_be_there_in_a_version_that_we_are_made_for(wanted, is_ok):
    finding = examine_package(Requirement(wanted))
    assert finding.ok is is_ok
    assert bool(finding.remedy) is not is_ok


def test_a_machine_without_git_gets_a_remedy(monkeypatch, tmp_path):
    assert examine_git().ok
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (examine_git().ok, "install git" in examine_git().remedy) == (False, True)


def test_disk_is_measured_where_runs_go(tmp_path):
    assert examine_disk(tmp_path).detail.endswith("GB free") or examine_disk(tmp_path).remedy
