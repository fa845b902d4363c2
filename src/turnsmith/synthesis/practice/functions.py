"""Generated functions: parameters, one to three rules, and arguments on which they can be tried."""

import random
from dataclasses import dataclass

from turnsmith.synthesis.practice.rules import Rule, cap, choose, compute, floor, join, tally, tally_all


@dataclass(frozen=True)
class Function:
    """A function of a practice module."""

    name: str
    params: dict[str, str]
    """Name → sort: `number`, `text` or `numbers`."""
    rules: tuple[Rule, ...]
    result: str

    @property
    def sentence(self) -> str:
        """What it does, in English, without a full stop."""
        return "; ".join(rule.english for rule in self.rules)

    @property
    def source(self) -> str:
        """Python source."""
        body = [line for rule in self.rules for line in rule.code]
        lines = [f"def {self.name}({', '.join(self.params)}):", f'    """Here {self.sentence}."""']
        return "\n".join([*lines, *(f"    {line}" for line in body), f"    return {self.result}"]) + "\n"

    def draw_arguments(self, rng: random.Random) -> tuple[object, ...]:
        """Arguments on which the rules make a difference more often than not."""
        return tuple(_draw(sort, rng) for sort in self.params.values())


def _draw(sort: str, rng: random.Random) -> object:
    if sort == "text":
        return "".join(rng.choice("abcdefghij") for _ in range(3))
    if sort == "numbers":
        return [rng.randint(2, 9) for _ in range(4)]
    return rng.randint(2, 9)


def _operand(known: list[str], rng: random.Random) -> str:
    """A name, or now and then a small number."""
    return str(rng.randint(2, 9)) if rng.random() < 0.25 else rng.choice(known)


def arithmetic(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """A chain of sums, differences and products."""
    params = words[: rng.choice((2, 3))]
    rules, known, last = [], list(params), params[0]
    for target in words[len(params) : len(params) + num_rules]:
        rules.append(compute(target, last, _operand([w for w in known if w != last], rng), rng))
        known.append(target)
        last = target
    return Function(name, dict.fromkeys(params, "number"), tuple(rules), last)


def clamped(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """A value that is computed, then held within bounds."""
    value, other, low, high, target = words[:5]
    rules = [compute(target, value, other, rng), cap(target, high), floor(target, low)]
    kept = rules[:1] if num_rules == 1 else [rules[0], *rng.sample(rules[1:], num_rules - 1)]
    bounds = [name for name in (low, high) if any(name in rule.english.split() for rule in kept[1:])]
    return Function(name, dict.fromkeys([value, other, *bounds], "number"), tuple(kept), target)


def chosen(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """One of two values, by a comparison."""
    left, right, yes, no, target = words[:5]
    rules = [choose(target, yes, no, (left, right), rng)]
    last = target
    if num_rules > 1:
        rules.append(compute(words[5], target, rng.choice([left, yes]), rng))
        last = words[5]
    return Function(name, dict.fromkeys([left, right, yes, no], "number"), tuple(rules), last)


def tallied(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """A sum over a list."""
    items, bound, target = words[0] + "s", words[1], words[2]
    rules = [rng.choice((tally, tally_all))(target, items, bound, rng)]
    last = target
    if num_rules > 1:
        rules.append(compute(words[3], target, bound, rng))
        last = words[3]
    return Function(name, {items: "numbers", bound: "number"}, tuple(rules), last)


def joined(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Texts put together."""
    params = words[: rng.choice((2, 3))]
    rules, last = [], params[0]
    for index, target in enumerate(words[len(params) : len(params) + num_rules]):
        rules.append(join(target, last, params[(index + 1) % len(params)], rng))
        last = target
    return Function(name, dict.fromkeys(params, "text"), tuple(rules), last)


def capped_choice(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """A choice, then a bound."""
    left, right, yes, no, target, limit = words[:6]
    rules = [choose(target, yes, no, (left, right), rng)]
    params = [left, right, yes, no]
    if num_rules > 1:
        rules.append(rng.choice((cap, floor))(target, limit))
        params.append(limit)
    return Function(name, dict.fromkeys(params, "number"), tuple(rules), target)


def bounded_tally(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """A sum over a list, held within a bound."""
    items, bound, target, limit = words[0] + "s", words[1], words[2], words[3]
    rules = [tally(target, items, bound, rng)]
    params = {items: "numbers", bound: "number"}
    if num_rules > 1:
        rules.append(rng.choice((cap, floor))(target, limit))
        params[limit] = "number"
    return Function(name, params, tuple(rules), target)
