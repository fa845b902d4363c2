"""Rules, the steps of generated functions, in Python and in English.

Docstrings and test messages contain the English text, which states the intended behaviour.
"""

import random
from dataclasses import dataclass

ARITHMETIC = ("+", "-", "*")
COMPARISONS = (">", "<", ">=", "<=", "==")


@dataclass(frozen=True)
class Rule:
    """Step of a generated function, in Python and in English."""

    target: str
    """Variable to which the rule assigns its result."""
    code: tuple[str, ...]
    """Lines of Python code of the rule, without indentation."""
    english: str
    """Description of the rule as a clause without a full stop, for example `total is count * price`."""


def _assign(target: str, expression: str) -> Rule:
    return Rule(target, (f"{target} = {expression}",), f"{target} is {expression}")


def compute(target: str, left: str, right: str, rng: random.Random) -> Rule:
    """Make a rule that computes a number, such as `total = count * price`."""
    return _assign(target, f"{left} {rng.choice(ARITHMETIC)} {right}")


def join(target: str, left: str, right: str, rng: random.Random) -> Rule:
    """Make a rule that joins texts, such as `label = author + "-" + title`."""
    return _assign(target, f'{left} + "{rng.choice("-:/+.")}" + {right}')


def cap(target: str, limit: str) -> Rule:
    """Make a rule that limits a variable from above, such as `if speed > limit: speed = limit`."""
    return Rule(target, (f"if {target} > {limit}:", f"    {target} = {limit}"), f"{target} is never above {limit}")


def floor(target: str, limit: str) -> Rule:
    """Make a rule that limits a variable from below, such as `if speed < limit: speed = limit`."""
    return Rule(target, (f"if {target} < {limit}:", f"    {target} = {limit}"), f"{target} is never below {limit}")


def choose(target: str, yes: str, no: str, compared: tuple[str, str], rng: random.Random) -> Rule:
    """Make a rule that selects one of two values, such as `if rank >= tier: seat = row` with an `else` branch."""
    condition = f" {rng.choice(COMPARISONS)} ".join(compared)
    code = (f"if {condition}:", f"    {target} = {yes}", "else:", f"    {target} = {no}")
    return Rule(target, code, f"{target} is {yes} if {condition}, else {no}")


def tally(target: str, items: str, bound: str, rng: random.Random) -> Rule:
    """Make a rule that sums some items, such as `for unit in units: if unit > bound: total = total + unit`."""
    condition = f"each {rng.choice(COMPARISONS[:4])} {bound}"
    loop = (f"for each in {items}:", f"    if {condition}:", f"        {target} = {target} + each")
    return Rule(target, (f"{target} = 0", *loop), f"{target} adds up each of the {items} if {condition}")


def tally_all(target: str, items: str, factor: str, rng: random.Random) -> Rule:
    """Make a rule that sums all items, such as `for unit in units: total = total + unit * factor`."""
    term = f"each {rng.choice('*+')} {factor}"
    loop = (f"for each in {items}:", f"    {target} = {target} + {term}")
    return Rule(target, (f"{target} = 0", *loop), f"{target} adds up {term} of the {items}")
