"""Application of patches as in SWE-bench's harness: `git apply` with three sets of options, then GNU patch.

The patch is applied in a separate sandbox, and the grader gets the resulting difference. Training never uses these fallbacks.
"""

from dataclasses import dataclass

from turnsmith.errors import GradingError
from turnsmith.git.patch_policy import PatchRefused, to_bytes
from turnsmith.sandboxes.base import SandboxProvider, SandboxSpec, started
from turnsmith.sandboxes.setup import SETUP_TIMEOUT_S, set_up
from turnsmith.types import ExecResult, TaskTree

APPLIES, DOES_NOT_APPLY = 0, 1
APPLY_AS_THE_HARNESS_DOES = """
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
place=$(mktemp -d) && cat > "$place/patch.diff" || exit 125
apart() { GIT_DIR="$place/git" GIT_WORK_TREE=. git "$@"; }
apart init --quiet --template= && mkdir -p "$place/git/info" &&
    echo '* -text -ident !eol !filter !diff !working-tree-encoding' > "$place/git/info/attributes" &&
    apart add --all --force . && before=$(apart write-tree) || exit 125
git() { command git -c safe.directory='*' "$@"; }
try() {
    echo "\\$ $*"
    "$@" "$place/patch.diff"
    code=$?
    if [ $code = 127 ] || [ $code -gt 128 ]; then exit $code; fi
    return $code
}
afresh() { git checkout --quiet -- . ; git clean --quiet -fd; }
try git apply --verbose ||
    { afresh; try git apply --verbose --3way; } ||
    { afresh; try git apply --verbose --reject; } ||
    { afresh; try patch --batch --forward --fuzz=5 -p1 -i; } ||
    try git apply --check --reverse || exit 1
apart add --all --force . &&
    apart diff --cached --binary --full-index --no-renames --no-color --no-ext-diff --no-textconv "$before" >&251 || exit 125
rm -rf -- "$place"
"""
"""Script that applies the patch on stdin and writes the resulting difference to file descriptor 251.

A separate git repository computes the difference, because git attributes in the tree could change file contents.
"""


@dataclass(frozen=True)
class Application:
    """Result of applying a patch as SWE-bench's harness does."""

    patch: str | None
    """Difference that the patch made in the tree, as a git patch; None if no program could apply the patch."""
    log: str
    """Output of the programs that applied the patch."""


async def apply_as_harness(provider: SandboxProvider, tree: TaskTree, patch: str) -> Application:
    """Apply a patch by the programs that SWE-bench's harness tries, in order. Raises SandboxError, GradingError."""
    try:
        content = to_bytes(patch)
    except PatchRefused as refusal:
        return Application(None, str(refusal))
    async with started(provider, SandboxSpec.of(tree)) as sandbox:
        await set_up(sandbox, tree)
        result = await sandbox.exec(APPLY_AS_THE_HARNESS_DOES, timeout_s=SETUP_TIMEOUT_S, stdin=content)
    log = result.output.decode(errors="replace")
    if result.timed_out or result.exit_code not in (APPLIES, DOES_NOT_APPLY):
        raise GradingError(_explain(result, log))
    applies = result.exit_code == APPLIES
    return Application(result.report.decode(errors="surrogateescape") if applies else None, log)


def _explain(result: ExecResult, log: str) -> str:
    last = log.strip().rpartition("\n")[2]
    if result.timed_out:
        return f"a patch was not applied within {SETUP_TIMEOUT_S:.0f} s: {last}"
    if result.exit_code == 127:
        return f"git or patch is not installed in the sandbox, so that not every fallback could be tried: {last}"
    return f"a patch could not be tried, since a program ended with {result.exit_code}: {last}"
