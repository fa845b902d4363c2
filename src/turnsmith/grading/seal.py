"""Signed reports of pytest. A secret mark begins each line of the summary, and a secret key signs a second report.

Mark and key are random in each run. Only marked lines count, and only if pytest finished. So a forged summary or an early
exit resolves no task. Code in pytest's process can still find the secrets or replace parts of pytest; sentinels and audits
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
    """Secrets of one test run: the mark at the start of each summary line, and the key that signs the report."""

    mark: str = field(default_factory=lambda: secrets.token_hex(16))
    key: str = field(default_factory=lambda: secrets.token_hex(32))

    @property
    def stdin(self) -> bytes:
        """Return the line that passes the secrets to the pytest plugin on standard input."""
        return json.dumps({"mark": self.mark, "key": self.key, "descriptor": REPORT_FD}).encode() + b"\n"


@dataclass(frozen=True)
class SealedReport:
    """Signed report that the pytest plugin wrote to a file descriptor."""

    statuses: dict[str, str]
    """Test id → worst status of the test's phases: set-up, call and tear-down."""
    is_finished: bool
    is_forged: bool
    """True if a line of the report has no valid signature."""
    is_loaded: bool
    """True if pytest loaded the plugin completely."""
    crash: str = ""
    """First exception that a hook of the plugin raised; empty if none did."""


def seal(command: str) -> str:
    """Add the grader's plugin, which reads the secrets from standard input, to a test command.

    The command must start pytest once and pass on the environment. The plugin's name is random, so no file can replace it.
    """
    name = f"sealing_{secrets.token_hex(8)}"
    write = f'printf %s {quote(PLUGIN)} > "$HOME/{name}.py"'
    return f'{write}; export PYTEST_PLUGINS={name} PYTHONPATH="${{PYTHONPATH:+$PYTHONPATH:}}$HOME"; {command}'


def read_sealed(log: str, mark: str) -> str:
    """Return the lines of a log that begin with the secret mark, without the mark; empty if pytest did not finish."""
    lines = log.replace("\r", " ").split("\n")  # so that no message starts a new line
    sealed = [line.removeprefix(f"{mark} ") for line in lines if line.startswith(f"{mark} ")]
    return "\n".join(sealed) if is_finished(log, mark) else ""


def is_finished(log: str, mark: str) -> bool:
    """Return True if the log shows that pytest finished: one of its lines is the mark alone."""
    return mark in log.split("\n")


def unseal(log: str, mark: str) -> str:
    """Return the log without the secret mark, with which the grader's pytest plugin begins its lines."""
    return "\n".join(line.removeprefix(f"{mark} ") for line in log.split("\n") if line != mark)


def read_report(report: bytes, key: str) -> SealedReport:
    """Read a signed report, up to the first line with an invalid signature."""
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
