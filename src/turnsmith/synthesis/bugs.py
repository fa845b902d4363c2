"""Bugs in a source tree. A bug is one mutation, or a pair of mutations, each of which the tests also detect alone."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, zip_longest
from operator import itemgetter
from pathlib import PurePosixPath
from random import Random
from typing import Any

from turnsmith.synthesis.mutators import Mutation
from turnsmith.synthesis.mutators.base import apply_edits

COMBINED = "combine"
"""Family of bugs that consist of two mutations."""


@dataclass(frozen=True)
class Bug:
    """Bug of one task: one or two mutations of the source."""

    mutations: tuple[tuple[str, Mutation], ...]
    """Pairs (path, mutation). Two mutations of one file change different functions."""

    @property
    def family(self) -> str:
        return self.mutations[0][1].family if len(self.mutations) == 1 else COMBINED

    @property
    def mutator(self) -> str:
        """Return the name of the bug's mutation; for two, `combine_file` (same file) or `combine_module` (same folder)."""
        if len(self.mutations) == 1:
            return self.mutations[0][1].name
        return "combine_file" if len({path for path, _ in self.mutations}) == 1 else "combine_module"

    @property
    def hash8(self) -> str:
        """Return eight hexadecimal digits that identify the bug among all bugs in its source tree."""
        names = " + ".join(f"{path} {mutation.hash8}" for path, mutation in self.mutations)
        return hashlib.sha256(names.encode()).hexdigest()[:8]

    @cached_property
    def changes(self) -> dict[str, tuple[str, str]]:
        """Map the path of each changed file to its texts (without bug, with bug)."""
        paths = {path: mutation.source for path, mutation in self.mutations}
        edits = {path: [mutation.edit for where, mutation in self.mutations if where == path] for path in paths}
        return {path: (source, apply_edits(source, edits[path])) for path, source in paths.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """Return `Task.meta` of the bug: mutator, path, function, line. For two mutations, `parts` lists these of each."""
        parts = [
            {"mutator": each.name, "path": path, "function": each.function, "line": each.line}
            for path, each in self.mutations
        ]
        more = {"parts": parts} if len(parts) > 1 else {}
        return {"family": self.family, **parts[0], "mutator": self.mutator, **more}


def spread(found: Mapping[str, Sequence[Mutation]], rng: Random, families: Collection[str] = ()) -> Iterator[Bug]:
    """Yield each mutation as a bug. The order alternates between mutators, and for each mutator between files.

    If several mutations make equal edits, only the first is yielded. If `families` (groups of mutators) are given, the order
    alternates between families instead of mutators, and mutations with equal edits are all yielded.
    """
    queues = defaultdict[str, list[tuple[float, Bug]]](list)
    for path, mutations in found.items():
        turns, seen = Counter[str](), set[tuple[int, int, bytes]]()
        for mutation in rng.sample(mutations, len(mutations)):
            edit, kind = mutation.edit, mutation.family if families else mutation.name
            if not families and (edit.start, edit.end, edit.text) in seen:
                continue
            seen.add((edit.start, edit.end, edit.text))
            queues[kind].append((turns[kind] + rng.random(), Bug(((path, mutation),))))
            turns[kind] += 1
    for entries in zip_longest(*(sorted(queues[kind], key=itemgetter(0)) for kind in families or sorted(queues))):
        yield from (entry[1] for entry in entries if entry)


def combine(bugs: Sequence[Bug], rng: Random) -> Iterator[Bug]:
    """Yield bugs that combine two of the given bugs, in different functions of a file or in two files of a folder.

    Bugs that occur in the fewest earlier pairs are combined first.
    """
    uses = Counter[str]()
    pairs = [pair for pair in combinations(bugs, 2) if _is_combinable(*pair)]
    rng.shuffle(pairs)
    for limit in range(1, len(bugs)):
        waiting = []
        for first, second in pairs:
            if max(uses[first.hash8], uses[second.hash8]) < limit:
                uses.update([first.hash8, second.hash8])
                yield Bug((*first.mutations, *second.mutations))
            else:
                waiting.append((first, second))
        pairs = waiting


def _is_combinable(first: Bug, second: Bug) -> bool:
    (path, one), (other_path, other) = first.mutations[0], second.mutations[0]
    if path != other_path:
        return PurePosixPath(path).parent == PurePosixPath(other_path).parent
    apart = one.edit.end <= other.edit.start or other.edit.end <= one.edit.start
    return apart and one.function != other.function
