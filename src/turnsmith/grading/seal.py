"""Signed reports of pytest: a secret mark begins each summary line, and a secret key signs a second report.

Both secrets are random in each run. Only marked lines count, and only if pytest finished. So a forged summary or an early
exit scores nothing. Code in pytest's process can still find the secrets or replace parts of pytest; sentinels and audits
detect this.
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

from turnsmith.grading.log_parsers.base import SEVERITY
from turnsmith.sandboxes.inside.toolbox import REPORT_FD

PLUGIN = Path(__file__).with_name("sealing.py").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Seal:
    """Secret mark and key of one run."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def stdin(self) -> bytes:
        """Return the line on stdin from which the plugin reads the secrets."""
        return json.dumps({"mark": self.mark, "key": self.key, "descriptor": REPORT_FD}).encode() + b"\n"


@dataclass(frozen=True)
class SealedReport:
    """Signed report from the file descriptor."""

    statuses: dict[str, str]
    """Worst status of each test's phases, by test id."""
    is_finished: bool
    is_forged: bool
    """True if a line lacks a valid signature."""
    is_loaded: bool
    """True if pytest loaded the whole plugin."""
    crash: str = ""
    """First exception of a hook of the plugin."""


def seal(command: str) -> str:
    """Return the command with the plugin, whose pytest reads the secrets from stdin.

    The command must pass its environment to one pytest. The plugin has a random name that no file of the tree can take.
    """
    name = f"sealing_{secrets.token_hex(8)}"
    write = f'printf %s {quote(PLUGIN)} > "$HOME/{name}.py"'
    return f'{write}; export PYTEST_PLUGINS={name} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$HOME"; {command}'


def read_sealed(log: str, mark: str) -> str:
    """Return the marked lines without their mark; empty if pytest did not finish."""
    lines = log.replace("\r", " ").split("\n")  # so that no message starts a new line
    sealed = [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]
    return "\n".join(sealed) if is_finished(log, mark) else ""


def is_finished(log: str, mark: str) -> bool:
    """Return True if pytest finished."""
    return mark in log.split("\n")


def unseal(log: str, mark: str) -> str:
    """Return the log without marks."""
    return "\n".join(line.removeprefix(f"{mark} ") for line in log.split("\n") if line != mark)


def read_report(report: bytes, key: str) -> SealedReport:
    """Read the signed lines in order, up to the first with an invalid signature."""
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
    if record["outcome"] == "failed":
        return "failed" if record["when"] == "call" else "error"
    if record["outcome"] == "skipped":
        return "xfailed" if record["xfail"] else "skipped"
    return "xpassed" if record["xfail"] else "passed"
