"""Checks of the machine: features are tested in a sandbox; a forbidden one names the setting that allows it."""

import os
import re
import subprocess
import sys

import pytest

from turnsmith.config import SandboxConfig
from turnsmith.errors import UsageError
from turnsmith.sandboxes import make_provider
from turnsmith.sandboxes.local import OWN_FOLDERS, name_remedy
from turnsmith.sandboxes.probes import probe_local

FORBIDDEN = "echo 0 > /proc/sys/user/max_user_namespaces && exec "
"""Shell commands that forbid user namespaces inside a user namespace."""


def test_every_part_is_tried_and_explained():
    findings = probe_local()
    assert all(finding.detail and bool(finding.remedy) != finding.ok for finding in findings)
    if findings[0].ok:
        assert [finding for finding in findings if not finding.ok] == []
        assert {"limit of memory", "limit of processes", "python runtime"} <= {finding.name for finding in findings}


def test_findings_state_which_limit_is_enforced_and_no_name_of_an_exception():
    details = {finding.name: finding.detail for finding in probe_local()}
    assert not any("Error" in detail for detail in details.values())
    if len(details) > 1:
        assert re.search("500 MB .*128", details["limit of memory"])


@pytest.mark.parametrize("folder", sorted(set(map(os.path.realpath, OWN_FOLDERS))))
def test_a_python_in_a_folder_that_sandboxes_hide_is_refused_with_its_place(monkeypatch, folder):
    monkeypatch.setattr(sys, "base_prefix", f"{folder}/missing-python")
    with pytest.raises(UsageError, match=f"{folder}/missing-python.*.*install Turnsmith"):
        make_provider(SandboxConfig(kind="local"))
    [finding] = probe_local()
    assert not finding.ok and "missing-python" in finding.detail and "install Turnsmith" in finding.remedy


def run_where_forbidden(code):
    command = ["unshare", "--user", "--map-root-user", "sh", "-c", FORBIDDEN + '"$@"', "sh", sys.executable, "-c", code]
    if subprocess.run(["unshare", "--user", "--map-root-user", "true"], capture_output=True).returncode:
        pytest.skip("this machine forbids user namespaces by itself")
    return subprocess.run(command, capture_output=True, text=True, env=os.environ)


def test_where_namespaces_are_forbidden_the_error_names_the_setting_and_the_way_out():
    code = """if True:
        from turnsmith.config import SandboxConfig
        from turnsmith.errors import UsageError
        from turnsmith.sandboxes import make_provider
        try:
            make_provider(SandboxConfig(kind="local"))
        except UsageError as error:
            print(error)
    """
    result = run_where_forbidden(code)
    assert "user.max_user_namespaces" in result.stdout, result
    assert "--sandbox.kind subprocess" in result.stdout
    assert result.stdout.count("\n") == 1


def test_where_namespaces_are_forbidden_the_probe_says_so():
    result = run_where_forbidden("from turnsmith.sandboxes.probes import probe_local; print(probe_local()[0])")
    assert "ok=False" in result.stdout and "user.max_user_namespaces" in result.stdout, result


@pytest.mark.parametrize(
    ("setting", "value", "named"),
    [
        ("sys/kernel/apparmor_restrict_unprivileged_userns", "1", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
        ("sys/user/max_user_namespaces", "0", "user.max_user_namespaces"),
        ("self/status", "Name:\tx\nSeccomp:\t2", "seccomp=unconfined"),
        ("self/status", "Name:\tx\nSeccomp:\t0", "Linux 6.6"),
    ],
)
def test_each_obstacle_is_named(tmp_path, setting, value, named):
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "status").write_text("")
    (tmp_path / setting).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / setting).write_text(value + "\n")
    assert named in name_remedy(tmp_path)


def test_the_spawner_side_needs_only_the_standard_library():
    code = """if True:
        import sys
        sys.path.append(sys.argv[1])
        import turnsmith.sandboxes.inside.local.spawner, turnsmith.sandboxes.inside.local.root
        import turnsmith.sandboxes.inside.supervisor, turnsmith.sandboxes.inside.container
        print(sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)))
    """
    source = str(__import__("turnsmith").__path__[0]).removesuffix("/turnsmith")
    result = subprocess.run([sys.executable, "-I", "-S", "-c", code, source], capture_output=True, text=True)
    assert result.stdout.strip() == "['__main__', 'turnsmith']", result
