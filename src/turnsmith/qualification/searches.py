"""Searches through the files that a sandbox shows, as its user, so that exactly what an agent could read is found.

A file is put into the tree to be found. A search that misses it, for want of a tool or of one of its options, proves nothing:
that is a SandboxError.
"""

from collections.abc import Collection
from shlex import quote

from turnsmith.errors import SandboxError
from turnsmith.sandboxes.base import Sandbox

TIMEOUT_S = 900.0
BAIT, ANSWER = ".turnsmith-bait", ".turnsmith-answer"
"""The file to be found, and where paths are written down, which may be more than a command may print."""
TREE = "set -- .; "
"""The working tree alone."""
SYSTEM = (
    'set --; for top in /*; do case "$top" in /proc|/sys|/dev) ;; *) [ -h "$top" ] || set -- "$@" "$top";; esac; done; '
)
"""Every folder at the root but those that hold no files, links left out; the tree is in one of them."""
GREP = f'LC_ALL=C grep -rlsIZF -D skip --exclude={ANSWER} -f {BAIT} -- "$@" || [ $? -le 2 ]'
"""What cannot be read is passed over, and ends grep with 2."""


async def find_texts(sandbox: Sandbox, where: str, fragments: Collection[bytes]) -> list[str]:
    """Text files that hold one of these fragments of a line. Raises SandboxError."""
    return await _search(sandbox, where + GREP, b"\n".join(sorted(fragments)))


async def find_paths(sandbox: Sandbox, where: str, patterns: Collection[str]) -> list[str]:
    """Files whose paths match; `*` stands for slashes, too. Raises SandboxError."""
    tests = " -o ".join(f"-path {quote(pattern)}" for pattern in [f"*/{BAIT}", *patterns])
    return await _search(sandbox, f'{where}find "$@" -type f \\( {tests} \\) -print0 2> /dev/null || [ $? -le 1 ]')


async def _search(sandbox: Sandbox, command: str, bait: bytes = b"") -> list[str]:
    """The paths that a command finds, without the bait."""
    try:
        await sandbox.write(BAIT, bait)
        result = await sandbox.exec(f"( {command} ) > {ANSWER} && echo >> {ANSWER}", timeout_s=TIMEOUT_S)
        *paths, end = (await sandbox.read(ANSWER)).decode(errors="surrogateescape").split("\0")
    except OSError as error:
        raise SandboxError(f"the sandbox could not be looked through: {error}") from None
    found = [path for path in paths if path.rpartition("/")[2] != BAIT]
    if result.exit_code or len(found) == len(paths) or end != "\n":
        raise SandboxError("a search missed a file that was put there to be found: has the sandbox GNU grep and find?")
    return found
