"""What a task is about, whatever it is called: data sets give the same fix other ids."""

import hashlib

from turnsmith.types import Task

OWNER = "/"
"""Between owner and name of a repository: forks have another owner."""


def digest_content(task: Task) -> str:
    """Digest of the repository's name and of what the gold patch removes and adds where; empty where it changes nothing.

    Owner, context, positions and white space at the ends of lines make no difference. Names of generated repositories may
    repeat; with the path and the lines of the patch they do not.
    """
    lines = [line.rstrip() for line in task.patch.splitlines() if line.startswith(("diff --git ", "+", "-"))]
    if not lines:
        return ""
    name = task.repo.rpartition(OWNER)[2].lower()
    return hashlib.sha256("\n".join([name, *lines]).encode(errors="surrogatepass")).hexdigest()
