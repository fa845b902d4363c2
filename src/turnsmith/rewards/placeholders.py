"""What stands in written doubles for a name or a salt: each run draws its own, so nobody learns one from another run."""

import re
from collections.abc import Callable
from secrets import token_hex
from typing import Literal

from turnsmith.rewards.chance import CHANCE

HELPER = "_double99999_"
"""Name of the helper through which doubles hand on values; a placeholder, too."""
PLACEHOLDER = re.compile(r"(?:double|straight|crooked|slanted)\d{5}_")


def write_name(number: int) -> str:
    return f"double{number:05}_"


Salt = Literal["straight", "crooked", "slanted"]
"""What the helper is told: to hand on, to bend, or to bend or else to skip the test. Its numbers are odd, or 2 or 0 modulo 4."""
_FITS: dict[str, Callable[[int], bool]] = {
    "straight": lambda number: number % 2 == 1,
    "crooked": lambda number: number % 4 == 2,
    "slanted": lambda number: number % 4 == 0,
    "double": lambda _: True,
}


def write_salt(kind: Salt) -> str:
    """Two that are alike do no harm."""
    return f"{kind}{CHANCE.randrange(100_000):05}_"


class Names(dict[str, str]):
    """From placeholder to name or salt, drawn when it is asked for."""

    def __missing__(self, placeholder: str) -> str:
        self[placeholder] = draw_name(placeholder)
        return self[placeholder]


def draw_name(placeholder: str) -> str:
    """Hexadecimal digits; of a salt they are a number as it says."""
    name = token_hex(4)
    return name if _FITS[placeholder[:-6]](int(name, 16)) else draw_name(placeholder)


def fill_in(text: str, names: dict[str, str]) -> str:
    return PLACEHOLDER.sub(lambda placeholder: names[placeholder[0]], text)
