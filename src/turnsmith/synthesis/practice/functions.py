"""Functions of generated practice repositories: parameters, one to three rules, example arguments.

Each kind of module has its own generators of functions. Two kinds of module are held out for evaluation. Training tasks
contain neither these kinds, nor functions whose sequence of rule types occurs in these kinds.
"""

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import cycle, islice, pairwise, product

from turnsmith.synthesis.practice.rules import Rule, cap, choose, compute, floor, join, tally, tally_all


@dataclass(frozen=True)
class Function:
    """Generated function of a practice repository."""

    name: str
    params: dict[str, str]
    """Parameter name → type: `number`, `text` or `numbers`."""
    rules: tuple[Rule, ...]

    @property
    def sentence(self) -> str:
        """Return an English description of the function, without a full stop."""
        return "; ".join(rule.english for rule in self.rules)

    @property
    def source(self) -> str:
        body = [line for rule in self.rules for line in rule.code]
        lines = [f'"""Here {self.sentence}."""', *body, f"return {self.rules[-1].target}"]
        return f"def {self.name}({', '.join(self.params)}):\n" + "".join(f"    {line}\n" for line in lines)

    def draw_arguments(self, rng: random.Random) -> tuple[object, ...]:
        """Draw random arguments of the parameters' types."""
        return tuple(_draw(sort, rng) for sort in self.params.values())


def _draw(sort: str, rng: random.Random) -> object:
    if sort == "text":
        return "".join(rng.choice("abcdefghij") for _ in range(3))
    if sort == "numbers":
        return [rng.randint(2, 9) for _ in range(4)]
    return rng.randint(2, 9)


def _draw_operand(known: list[str], rng: random.Random) -> str:
    return str(rng.randint(2, 9)) if rng.random() < 0.25 else rng.choice(known)


def _numbers(names: Iterable[str]) -> dict[str, str]:
    return dict.fromkeys(names, "number")


def arithmetic(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that computes a chain of sums, differences and products."""
    params = words[: rng.choice((2, 3))]
    rules, known = list[Rule](), list(params)
    for last, target in pairwise([params[0], *words[len(params) :][:num_rules]]):
        rules.append(compute(target, last, _draw_operand([word for word in known if word != last], rng), rng))
        known.append(target)
    return Function(name, _numbers(params), tuple(rules))


def clamped(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that computes a value and limits it to bounds."""
    value, other, low, high, target = words[:5]
    computed, bounds = compute(target, value, other, rng), {high: cap(target, high), low: floor(target, low)}
    held = [] if num_rules == 1 else rng.sample(list(bounds.values()), num_rules - 1)
    used = [bound for bound in (low, high) if bounds[bound] in held]
    return Function(name, _numbers([value, other, *used]), (computed, *held))


def chosen(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that selects one of two values by a comparison."""
    left, right, yes, no, target, last = words
    rules = [choose(target, yes, no, (left, right), rng)]
    if num_rules > 1:
        rules.append(compute(last, target, rng.choice([left, yes]), rng))
    return Function(name, _numbers([left, right, yes, no]), tuple(rules))


def tallied(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that sums over a list."""
    items, bound, target, last = words[0] + "s", *words[1:4]
    rules = [rng.choice((tally, tally_all))(target, items, bound, rng)]
    if num_rules > 1:
        rules.append(compute(last, target, bound, rng))
    return Function(name, {items: "numbers", bound: "number"}, tuple(rules))


def joined(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that joins texts."""
    params = words[: rng.choice((2, 3))]
    steps = pairwise([params[0], *words[len(params) :][:num_rules]])
    others = islice(cycle([*params[1:], params[0]]), num_rules)
    rules = [join(target, last, other, rng) for (last, target), other in zip(steps, others, strict=True)]
    return Function(name, dict.fromkeys(params, "text"), tuple(rules))


NUM_LINES = {"compute": 1, "bound": 2, "choose": 4, "tally": 4}
MAX_BODY_LINES = 6
"""Maximum lines of a function body made by `blended`, without `return`, so that an agent's file window (ten lines) shows all."""
EXCLUDED_BLENDS = {("bound", "bound"), ("bound", "bound", "bound"), ("compute", "tally")}
"""Sequences of rule types that `blended` never makes: two of held-out modules, and one whose `bound` rules are often equal."""
BLENDS = [
    sorts
    for num_rules in (2, 3)
    for sorts in product(NUM_LINES, repeat=num_rules)
    if sum(NUM_LINES[sort] for sort in sorts) <= MAX_BODY_LINES and sorts not in EXCLUDED_BLENDS
]
"""Sequences of two or three rule types from which `blended` draws one for each function."""


def blended(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function of two or three rules of mixed types; `num_rules` is ignored."""
    first, *others = words[:3]
    items, last, rules = first + "s", first, list[Rule]()
    for sort, target in zip(rng.choice(BLENDS), words[3:6], strict=False):
        rules.append(_step(sort, target, last, others, items, rng))
        last = rules[-1].target
    used = {word for rule in rules for line in rule.code for word in re.findall(r"\w+", line)}
    sorts = {items: "numbers"} | _numbers((first, *others))
    return Function(name, {word: sorts[word] for word in sorts if word in used}, tuple(rules))


def _step(sort: str, target: str, last: str, others: list[str], items: str, rng: random.Random) -> Rule:
    """Make the next rule of a function with several rule types. It uses `last`, the variable of the previous rule's result."""
    left, right = rng.sample(others, 2)
    if sort == "compute":
        return compute(target, last, _draw_operand(others, rng), rng)
    if sort == "choose":
        return choose(target, last, left, (last, right), rng)
    if sort == "bound":
        return rng.choice((cap, floor))(last, left)
    return rng.choice((tally, tally_all))(target, items, last, rng)


def fenced(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that limits a parameter to two bounds. Only held-out modules contain such functions."""
    value, low, high = words[:3]
    rules = (cap(value, high), floor(value, low))
    return Function(name, _numbers(words[:3]), tuple(rng.sample(rules, 2)))


def scaled_tally(name: str, words: list[str], num_rules: int, rng: random.Random) -> Function:
    """Generate a function that computes a number, then uses it in a sum over a list. Only held-out modules contain it."""
    items, left, right, scale, target = words[0] + "s", *words[1:5]
    scaled = compute(scale, left, _draw_operand([right], rng), rng)
    summed = rng.choice((tally, tally_all))(target, items, scale, rng)
    return Function(name, {items: "numbers"} | _numbers((left, right)), (scaled, summed))


Shape = Callable[[str, list[str], int, random.Random], Function]

SHAPES: dict[str, tuple[Shape, ...]] = {
    "ledgers": (arithmetic,),
    "limits": (clamped,),
    "choices": (chosen,),
    "tallies": (tallied,),
    "labels": (joined,),
    "blends": (blended,),
    "voyages": (fenced,),
    "orchards": (scaled_tally,),
}
"""Kind of practice module → generators of the module's functions."""

HELDOUT_KINDS = ("voyages", "orchards")
TRAIN_KINDS = tuple(kind for kind in SHAPES if kind not in HELDOUT_KINDS)
