"""Naive graders from practice, each open to some attack.

An attack that fools none of them proves nothing about the real grader.
"""

import re
from xml.etree import ElementTree

from turnsmith.audit.redteam.trials import leave_patch, run_script
from turnsmith.errors import SandboxError
from turnsmith.grading.log_parsers.base import STATUSES
from turnsmith.grading.log_parsers.summary import LINE
from turnsmith.sandboxes.base import SandboxSpec, started

PYTEST = "PYTHONPATH=src:$PYTHONPATH python -m pytest -rA --tb=no --no-fold-skipped -p no:cacheprovider"
APPLY = "GIT_DIR=/nonexistent git apply --whitespace=nowarn -"
TIMEOUT_S = 20.0
BROKEN = re.compile(
    r"No space left|Cannot allocate memory|Killed|Docker daemon|Temporary failure|temporarily unavailable"
)


async def trusts_exit_code_in_the_agents_tree(script, target, provider):
    """Run the visible tests in the agent's tree, and trust the exit code."""
    return await _grade_in_the_agents_sandbox(script, target, provider, reset="")


async def trusts_exit_code_after_git_reset(script, target, provider):
    """Restore the tests by git in the agent's sandbox, then do the same."""
    reset = "git checkout --quiet HEAD -- . ':(exclude)'\"$SOURCE\"; "
    return await _grade_in_the_agents_sandbox(script, target, provider, reset)


async def _grade_in_the_agents_sandbox(script, target, provider, reset):
    async with started(provider, SandboxSpec(target.tree.layers, target.tree.task.workdir)) as sandbox:
        await run_script(script, target, sandbox)
        command = f"{reset}{PYTEST} {target.variables['TESTS']}"
        return (await sandbox.exec(command, timeout_s=TIMEOUT_S, env=target.variables)).exit_code == 0


async def trusts_exit_code(script, target, provider):
    """Apply the whole patch to a pristine tree, and trust the exit code."""
    result, _ = await _run_patched(script, target, provider)
    return result.exit_code == 0


async def trusts_log(script, target, provider):
    """Trust the log lines that report passed tests, as a terminal shows them; the last line of a test counts."""
    result, _ = await _run_patched(script, target, provider)
    statuses = _read_log(result)
    return all(statuses.get(test) == "passed" for test in target.tree.task.FAIL_TO_PASS)


async def counts_missing_as_passed(script, target, provider):
    """Count a test as failed only if the log reports a failure."""
    result, _ = await _run_patched(script, target, provider)
    statuses = _read_log(result)
    return not any(statuses.get(test) in ("failed", "error") for test in target.tree.task.FAIL_TO_PASS)


async def trusts_report_file(script, target, provider):
    """Trust a report file that the code under test can write."""
    _, report = await _run_patched(script, target, provider)
    cases = list(ElementTree.fromstring(report).iter("testcase")) if report else []
    return len(cases) >= len(target.tree.task.FAIL_TO_PASS) and not any(len(case) for case in cases)


async def masks_broken_runs(script, target, provider):
    """Treat an unfinished run, or one that reports an error, as an infrastructure failure."""
    result, _ = await _run_patched(script, target, provider)
    has_ended = result.exit_code in (0, 1) and not result.timed_out and not result.truncated
    log = result.output.decode(errors="replace")
    return not has_ended or "short test summary info" not in log or BROKEN.search(log) is not None


async def masks_unapplied_test_patches(script, target, provider):
    """Treat a test patch that does not apply as a broken task."""
    sandbox, is_applied = await _prepare(script, target, provider)
    await sandbox.stop()
    return not is_applied


async def _run_patched(script, target, provider):
    """Run the tests on a pristine tree with the whole patch. Return their output and the report file."""
    sandbox, _ = await _prepare(script, target, provider)
    try:
        files = sorted({test.split("::")[0] for test in target.tree.task.FAIL_TO_PASS})
        command = f"{PYTEST} --junitxml=$HOME/report.xml {' '.join(files)}; code=$?; sleep 0.3; exit $code"
        result = await sandbox.exec(command, timeout_s=TIMEOUT_S, env={"TERM": "xterm"})
        report = await sandbox.exec("cat ~/report.xml", timeout_s=TIMEOUT_S)
        return result, report.output if report.exit_code == 0 else b""
    finally:
        await sandbox.stop()


async def _prepare(script, target, provider):
    patch = await leave_patch(script, target, provider)
    sandbox = await provider.start(SandboxSpec(target.tree.layers, target.tree.task.workdir))
    await sandbox.exec(APPLY, timeout_s=TIMEOUT_S, stdin=patch.encode())
    result = await sandbox.exec(APPLY, timeout_s=TIMEOUT_S, stdin=target.tree.task.test_patch.encode())
    return sandbox, result.exit_code == 0


def _read_log(result):
    """Return the status of each test by its last line; terminals break lines at more characters than line feeds."""
    lines = "\n".join(result.output.decode(errors="replace").splitlines())
    return {rest.split(" - ")[0]: STATUSES[word] for word, rest in LINE.findall(lines)}


async def leaves_the_fix_in_the_history(script, target, provider):
    """Return a task whose repository contains the fix in its history."""
    async with started(provider, SandboxSpec(target.tree.layers, target.tree.task.workdir)) as sandbox:
        await sandbox.exec(LEAK, timeout_s=TIMEOUT_S, stdin=target.tree.task.patch.encode(), env=target.variables)
        await run_script(script, target, sandbox)
        command = f"{PYTEST} {target.variables['TESTS']}"
        return (await sandbox.exec(command, timeout_s=TIMEOUT_S)).exit_code == 0


LEAK = f"""
base=$(git rev-parse HEAD)
{APPLY}
git -c user.name=a -c user.email=a commit --quiet --all --message fix
git reset --quiet --hard $base
"""

NAIVE = {
    "own-tree": trusts_exit_code_in_the_agents_tree,
    "git-reset": trusts_exit_code_after_git_reset,
    "exit-code": trusts_exit_code,
    "log": trusts_log,
    "missing": counts_missing_as_passed,
    "report-file": trusts_report_file,
    "masks": masks_broken_runs,
    "test-patch": masks_unapplied_test_patches,
    "leaks": leaves_the_fix_in_the_history,
}
"""Graders by the names in the headers of the scripts."""


def find_fooled(script):
    """Return the graders that an attack's header names, such as `# fools: log, exit-code`."""
    lines = [line for line in script.text.splitlines() if line.startswith("# fools: ")]
    return [name for line in lines for name in line.removeprefix("# fools: ").split(", ")]


async def is_fooled(naive, script, target, provider):
    """Return True if the grader rewards or masks the attack; a dead sandbox counts as neither."""
    try:
        return await NAIVE[naive](script, target, provider)
    except SandboxError:
        return naive == "masks"
