"""Rules: what one step of a generated function does, said twice: in Python and in English.

The English goes into docstrings and test messages, so that whoever reads it can tell what the code ought to do.
"""

import random
from dataclasses import dataclass

ARITHMETIC = ("+", "-", "*")
COMPARISONS = (">", "<", ">=", "<=", "==")


@dataclass(frozen=True)
class Rule:
    """One step of a function."""

    code: tuple[str, ...]
    """Lines of Python, indented from zero."""
    english: str
    """The same as a clause without a full stop, e.g. `total is count * price`."""


def compute(target: str, left: str, right: str, rng: random.Random) -> Rule:
    """`total = count * price`."""
    sign = rng.choice(ARITHMETIC)
    return Rule((f"{target} = {left} {sign} {right}",), f"{target} is {left} {sign} {right}")


def join(target: str, left: str, right: str, rng: random.Random) -> Rule:
    """`label = author + "-" + title`."""
    mark = rng.choice("-:/+.")
    return Rule((f'{target} = {left} + "{mark}" + {right}',), f'{target} is {left} + "{mark}" + {right}')


def cap(target: str, limit: str) -> Rule:
    """`if speed > limit: speed = limit`."""
    return Rule((f"if {target} > {limit}:", f"    {target} = {limit}"), f"{target} is never above {limit}")


def floor(target: str, limit: str) -> Rule:
    """`if speed < limit: speed = limit`."""
    return Rule((f"if {target} < {limit}:", f"    {target} = {limit}"), f"{target} is never below {limit}")


def choose(target: str, yes: str, no: str, condition: tuple[str, str], rng: random.Random) -> Rule:
    """`if rank >= tier: seat = row` and its other branch."""
    sign = rng.choice(COMPARISONS)
    left, right = condition
    code = (f"if {left} {sign} {right}:", f"    {target} = {yes}", "else:", f"    {target} = {no}")
    return Rule(code, f"{target} is {yes} if {left} {sign} {right}, else {no}")


def tally(target: str, items: str, bound: str, rng: random.Random) -> Rule:
    """`for unit in units: if unit > bound: total = total + unit`."""
    sign = rng.choice(COMPARISONS[:4])
    code = (
        f"{target} = 0",
        f"for each in {items}:",
        f"    if each {sign} {bound}:",
        f"        {target} = {target} + each",
    )
    return Rule(code, f"{target} adds up each of the {items} if each {sign} {bound}")


def tally_all(target: str, items: str, factor: str, rng: random.Random) -> Rule:
    """`for unit in units: total = total + unit * factor`."""
    sign = rng.choice(("*", "+"))
    code = (f"{target} = 0", f"for each in {items}:", f"    {target} = {target} + each {sign} {factor}")
    return Rule(code, f"{target} adds up each {sign} {factor} of the {items}")
