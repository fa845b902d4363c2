"""Image tasks as in public data sets: a repository with its history in an image, and a row that names the image."""

import ast
import json
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from turnsmith.synthesis.repositories import make_patch

SUITES_IMAGE = "localhost/turnsmith-test-suites"
"""Image of .ci/containers: Debian with Python, pytest and git."""
IMAGE = "localhost/turnsmith-test-of"
WORKDIR = "/testbed"
ENVIRONMENT = "/opt/miniconda3/envs/testbed"
ACTIVATE = 'export PATH="/opt/miniconda3/envs/$1/bin:$PATH" CONDA_DEFAULT_ENV="$1"\n'
SET_UP = f"""set -e
python3 -m venv --without-pip --system-site-packages {ENVIRONMENT}
echo {WORKDIR} > $(echo {ENVIRONMENT}/lib/python3*/site-packages)/editable.pth
cd {WORKDIR}
git init -q; git config user.name Upstream; git config user.email upstream@localhost
git add -A; git commit -q -m "as it was"; git rev-parse HEAD
"""
"""Content of an image of SWE-bench: an environment named testbed, and the repository with its history."""


@dataclass(frozen=True)
class Release:
    """Published package, a bug for it, and the tests that the bug breaks."""

    package: str
    """Requirement of one version whose source distribution contains tests."""
    source: str
    right: str
    wrong: str
    issue: str
    test_file: str
    hidden: str
    """Test that the test patch adds."""
    command: str
    parser: str
    fixed: str
    maintained: list[str]

    @property
    def name(self):
        return self.package.partition("==")[0]

    @property
    def image(self):
        return f"{IMAGE}-{self.name}"


BY_PYTEST = Release(
    package="shortuuid==1.0.13",
    source="shortuuid/main.py",
    right="return int(math.ceil(factor * num_bytes))",
    wrong="return int(factor * num_bytes)",
    issue="encoded_length() is one too small.",
    test_file="shortuuid/test_shortuuid.py",
    hidden="test_encoded_length",
    command="pytest --no-header -rA --tb=line --color=no -p no:cacheprovider",
    parser="parse_log_pytest",
    fixed="shortuuid/test_shortuuid.py::ClassShortUUIDTest::test_encoded_length",
    maintained=[
        "shortuuid/test_shortuuid.py::ClassShortUUIDTest::test_encoding",
        "shortuuid/test_shortuuid.py::ShortUUIDPaddingTest::test_padding",
        "shortuuid/test_shortuuid.py::CliTest::test_encode_command",
    ],
)
BY_UNITTEST = Release(
    package="xmltodict==0.13.0",
    source="xmltodict.py",
    right="value.append(data)",
    wrong="item[key] = [value, data]",
    issue="Of three elements with one name, the first two end in a list of their own.",
    test_file="tests/test_xmltodict.py",
    hidden="test_list",
    command="python -m unittest -v",
    parser="unittest",
    fixed="test_list (tests.test_xmltodict.XMLToDictTestCase)",
    maintained=[
        "test_attrib (tests.test_xmltodict.XMLToDictTestCase)",
        "test_unicode (tests.test_xmltodict.XMLToDictTestCase)",
        "test_streaming (tests.test_xmltodict.XMLToDictTestCase)",
    ],
)
RELEASES = (BY_PYTEST, BY_UNITTEST)


def write_row(release, folder, ask):
    """Make the image of a release. Return its row in the layout of SWE-rebench; `ask` runs a command of the engine."""
    tree = unpack(release, folder)
    patch = break_source(release, tree)
    test_patch = hide_test(release, tree)
    commit = make_image(release, tree, ask)
    return {
        "instance_id": f"upstream__{release.name}-1", "repo": f"upstream/{release.name}", "base_commit": commit,
        "patch": patch, "test_patch": test_patch, "problem_statement": release.issue, "hints_text": "",
        "created_at": "2024-03-01 10:00:00", "version": "1.0", "environment_setup_commit": commit,
        "meta": {"commit_name": "merge_commit", "has_test_patch": True, "is_lite": True, "num_modified_files": 1,
                 "failed_lite_validators": [],
                 "llm_score": {"difficulty_score": 1, "issue_text_score": 0, "test_score": 0}},
        "install_config": {"python": "3.9", "install": "pip install -e .", "packages": "pytest", "pip_packages": None,
                           "pre_install": None, "reqs_path": None, "env_yml_path": None, "env_vars": None,
                           "no_use_env": None, "log_parser": release.parser, "test_cmd": release.command},
        "requirements": "", "environment": "", "license_name": "MIT",
        "FAIL_TO_PASS": [release.fixed], "PASS_TO_PASS": release.maintained, "FAIL_TO_FAIL": [], "PASS_TO_FAIL": [],
        "image_name": release.image, "docker_image": release.image,
    }  # fmt: skip


def unpack(release, folder):
    """Return the tree of a source distribution. Skips if it cannot be downloaded."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:", release.package]
    if subprocess.run([*command, "--dest", folder], capture_output=True).returncode:
        pytest.skip(f"{release.package} could not be downloaded")
    [archive] = folder.glob(f"{release.name}-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return archive.with_name(archive.name.removesuffix(".tar.gz"))


def break_source(release, tree):
    """Insert the bug. Return the patch that removes it."""
    file = tree / release.source
    right = file.read_text()
    assert right.count(release.right) == 1
    file.write_text(right.replace(release.right, release.wrong))
    return make_patch(release.source, file.read_text(), right)


def hide_test(release, tree):
    """Remove the test. Return the patch that restores it."""
    file = tree / release.test_file
    whole = file.read_text()
    [test] = [node for node in ast.walk(ast.parse(whole)) if getattr(node, "name", "") == release.hidden]
    lines = whole.splitlines(keepends=True)
    del lines[test.lineno - 1 : test.end_lineno]
    file.write_text("".join(lines))
    return make_patch(release.test_file, file.read_text(), whole)


def make_image(release, tree, ask):
    """Make the image of a repository. Return the commit."""
    around = tree.parent / f"{release.name}-root"
    (around / "opt/miniconda3/bin").mkdir(parents=True)
    (around / "opt/miniconda3/bin/activate").write_text(ACTIVATE)
    tree.rename(around / WORKDIR.removeprefix("/"))
    container = ask("create", "--network=none", SUITES_IMAGE, "bash", "-c", SET_UP)
    try:
        ask("cp", f"{around}/.", f"{container}:/")
        commit = ask("start", "--attach", container)
        ask("commit", "--quiet", container, release.image)
    finally:
        ask("rm", "--force", container)
    return commit


def write_rows(folder, ask):
    """Write the rows of all releases, and make their images."""
    rows = [write_row(release, folder, ask) for release in RELEASES]
    (file := Path(folder, "rows.jsonl")).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file
