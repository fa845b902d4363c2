"""The seal on a test run: a word that begins the lines of pytest's summary, and a key that signs its report.

Both are new for each run, and the code under test is told neither. Only sealed lines count, and only if pytest came to its end.
So a summary that the code under test writes, to whatever descriptor, and a process that it ends before its time score nothing.
The code runs in the process of pytest: where it searches that process for them, or replaces parts of pytest, it can still lie,
which is what sentinels and audits are for.
"""

import hmac
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from shlex import quote
from typing import Any

from turnsmith.grading.logparse import SEVERITY
from turnsmith.sandboxes.inside.toolbox import REPORT_FD

PLUGIN = Path(__file__).with_name("sealing.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Seal:
    """The secrets of one run."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def stdin(self) -> bytes:
        """What the plugin reads."""
        return json.dumps({"mark": self.mark, "key": self.key, "descriptor": REPORT_FD}).encode() + b"\n"


@dataclass(frozen=True)
class SealedReport:
    """What came by the descriptor."""

    statuses: dict[str, str]
    """Test id → the worst of what its phases ended with, in the words of the log."""
    is_finished: bool
    is_forged: bool
    """Did anyone write to the descriptor who has not the key?"""
    is_loaded: bool
    """Did pytest load the plugin to its last line?"""
    crash: str = ""
    """The first exception of a hook of the plugin."""


def seal(command: str) -> str:
    """The command, with the plugin beside the tree; its pytest reads the secrets from standard input.

    The command must hand its environment on to one pytest. The module's name is new each time: nothing in the tree can stand in
    for it.
    """
    name = f"sealing_{secrets.token_hex(8)}"
    write = f'printf %s {quote(PLUGIN)} > "$HOME/{name}.py"'
    return f'{write}; export PYTEST_PLUGINS={name} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$HOME"; {command}'


def read_sealed(log: str, mark: str) -> str:
    """The sealed lines without their mark; nothing where pytest did not come to its end."""
    lines = log.replace("\r", " ").split("\n")  # else a message could begin a line of its own
    sealed = [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]
    return "\n".join(sealed) if is_finished(log, mark) else ""


def is_finished(log: str, mark: str) -> bool:
    """Did pytest come to its end?"""
    return mark in log.split("\n")


def unseal(log: str, mark: str) -> str:
    """The log as if nothing had been sealed."""
    return "\n".join(line.removeprefix(f"{mark} ") for line in log.split("\n") if line != mark)


def read_report(report: bytes, key: str) -> SealedReport:
    """Read the signed lines, in their order; what follows a line that is not ours is not read."""
    statuses: dict[str, str] = {}
    lines = report.split(b"\n")[:-1]
    records = list(_signed(lines, bytes.fromhex(key)))
    for record in records:
        if test := record.get("test"):
            statuses[test] = max(statuses.get(test, "passed"), _status(record), key=SEVERITY.index)
    return SealedReport(
        statuses,
        is_finished=any("end" in record for record in records),
        is_forged=len(records) < len(lines),
        is_loaded=any("loaded" in record for record in records),
        crash=next((record["crash"] for record in records if "crash" in record), ""),
    )


def _signed(lines: list[bytes], key: bytes) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines):
        tag, _, text = line.partition(b" ")
        if not hmac.compare_digest(tag, blake2b(text, key=key, digest_size=16).hexdigest().encode()):
            return
        stated, record = json.loads(text)
        if stated != number:
            return
        yield record


def _status(record: dict[str, Any]) -> str:
    """The word of the log for one phase of a test."""
    if record["outcome"] == "failed":
        return "failed" if record["when"] == "call" else "error"
    if record["outcome"] == "skipped":
        return "xfailed" if record["xfail"] else "skipped"
    return "xpassed" if record["xfail"] else "passed"
