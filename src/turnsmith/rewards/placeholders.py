"""What stands in written doubles for a name or a salt: each run draws its own, so nobody learns one from another run."""

import re
from secrets import token_hex

from turnsmith.rewards.chance import CHANCE

HELPER = "_double99999_"
"""Name of the helper through which doubles hand on values; a placeholder, too."""
PLACEHOLDER = re.compile(r"(?:double|straight|crooked)\d{5}_")


def write_name(number: int) -> str:
    return f"double{number:05}_"


def write_salt(*, is_bent: bool) -> str:
    """A salt that tells the helper what to do: an even number bends, an odd one does not. Two that are alike do no harm."""
    return f"{'crooked' if is_bent else 'straight'}{CHANCE.randrange(100_000):05}_"


class Names(dict[str, str]):
    """From placeholder to name or salt, drawn when it is asked for."""

    def __missing__(self, placeholder: str) -> str:
        self[placeholder] = draw_name(placeholder)
        return self[placeholder]


def draw_name(placeholder: str) -> str:
    """Hexadecimal digits; of a salt they are an even or an odd number, as it says."""
    name = token_hex(4)
    is_wrong = {"s": int(name, 16) % 2 == 0, "c": int(name, 16) % 2 == 1}.get(placeholder[0], False)
    return draw_name(placeholder) if is_wrong else name


def fill_in(text: str, names: dict[str, str]) -> str:
    return PLACEHOLDER.sub(lambda placeholder: names[placeholder[0]], text)
