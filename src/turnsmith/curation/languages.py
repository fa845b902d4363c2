"""Detection of English issues by the share of common English words; code in the text is skipped."""

import re

CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^(?: {4}|\t)[^\n]*|https?://\S+", re.DOTALL | re.MULTILINE)
WORD = re.compile(r"[^\W\d_]+")
COMMON = frozenset(
    "a about after all also an and any are as at be because been before but by can could did do does doesn don error for "
    "from get has have how i if in into is isn issue it its just like make more my no not of on one only or other our out "
    "should so some still than that the their them then there these they this to up use used using want was we what when "
    "where which while will with without work works would you your".split()
)
MIN_WORDS = 8


def measure_english(text: str) -> float | None:
    """Return the share of common English words in prose, 0 to 1; None if there are too few words."""
    words = [word.lower() for word in WORD.findall(CODE.sub(" ", text))]
    if len(words) < MIN_WORDS:
        return None
    return sum(word in COMMON for word in words) / len(words)
