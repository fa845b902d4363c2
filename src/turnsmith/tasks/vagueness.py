"""Detection of vague issues: few words, a list of commits, or release notes."""

import re

REFERENCE = re.compile(r"(?:\b(?:fix(?:e[sd])?|clos(?:e[sd]?)|resolv(?:e[sd]?))\b:? +)?(?<![\w/.-])#\d+", re.I)
"""Pattern of references to issues, e.g. `Fixes #12`, which are removed before words are counted."""
BULLET = re.compile(r"^\s*[*+-]\s+(.*)$")
VERSION = r"v?\d+(?:\.\d+)+(?:\.?(?:a|b|rc|dev|post)\d*)?"
RELEASE = re.compile(rf"(?:(?:version|release|changelog|bump|prepare)\b(?: [a-z]+){{0,3}}:? )?{VERSION}\W*", re.I)
"""Pattern of a title that only names a release, e.g. `Release 1.2`."""
SECTION = re.compile(
    r"^(?:#+ *|\*\*)?(?:added|changed|deprecated|removed|fixed|security|features|bug ?fixes|breaking changes)\W*$",
    re.I | re.MULTILINE,
)
"""Pattern of a heading of a change log, e.g. `## Added`."""
MIN_WORDS = 12
"""Issues with fewer words are vague."""
MAX_TITLE_WORDS = 8
"""List items of an issue count as commit titles if they have at most this many words on average."""


def find_vagueness(text: str) -> str:
    """Return the reason why an issue is vague; empty if it is not."""
    lines = [line for line in REFERENCE.sub("", text).splitlines() if line.strip()]
    points = [match[1] for line in lines if (match := BULLET.match(line))]
    prose = [line for line in lines if not BULLET.match(line)]
    reasons = {
        "few words": _count_words(lines) < MIN_WORDS,
        "release notes": _are_release_notes(prose, points),
        "a list of commits": _are_commits(prose, points),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), "")


def _are_release_notes(prose: list[str], points: list[str]) -> bool:
    """Return True if a text is a release title with a list, or has headings of a change log."""
    is_release = bool(prose and points) and RELEASE.fullmatch(prose[0].strip(" #")) is not None
    return bool(points) and (is_release or len(SECTION.findall("\n".join(prose))) > 1)


def _are_commits(prose: list[str], points: list[str]) -> bool:
    """Return True if a text is the message of a squashed commit: a title and a list of commit titles."""
    return len(points) > 1 and _count_words(prose) < MIN_WORDS and _count_words(points) <= len(points) * MAX_TITLE_WORDS


def _count_words(lines: list[str]) -> int:
    return len(" ".join(lines).split())
