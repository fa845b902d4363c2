"""Splits by whole repositories, compared with all possible splits."""

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnsmith.curation.splits import Part, choose_nearest, cut_by_repository, parse_parts
from turnsmith.errors import UsageError

SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 40), min_size=2)
SHARES = st.floats(0.01, 0.99)
LITE = {
    "astropy": 6, "django": 114, "matplotlib": 23, "seaborn": 4, "flask": 3, "requests": 6, "xarray": 5, "pylint": 6,
    "pytest": 17, "scikit-learn": 23, "sphinx": 16, "sympy": 77,
}  # fmt: skip
"""Tasks of the repositories of SWE-bench Lite."""


def count(sizes, placed):
    counts = Counter()
    for name, part in placed.items():
        counts[part.name] += sizes[name]
    return counts


@given(SIZES, SHARES, st.integers(0, 3))
def test_no_split_of_whole_repositories_is_nearer(sizes, share, seed):
    parts, total = [Part("train", share), Part("eval", 1 - share)], sum(sizes.values())
    found = count(sizes, cut_by_repository(sizes, parts, seed))
    choices = (dict(zip(sizes, chosen, strict=True)) for chosen in product(parts, repeat=len(sizes)))
    distances = [abs(count(sizes, each)["train"] - share * total) for each in choices if len(set(each.values())) == 2]
    assert min(found.values()) > 0 and found.total() == total
    assert abs(found["train"] - share * total) <= min(distances) + 1e-9


@given(SIZES, st.lists(SHARES, min_size=2, max_size=4), st.integers(0, 3))
def test_every_repository_has_a_part_and_every_part_a_repository(sizes, shares, seed):
    parts = [Part(str(number), share / sum(shares)) for number, share in enumerate(shares)]
    if len(sizes) < len(parts):
        with pytest.raises(UsageError, match=r"fewer parts, or --by id"):
            cut_by_repository(sizes, parts, seed)
        return
    placed = cut_by_repository(sizes, parts, seed)
    assert placed.keys() == sizes.keys() and set(placed.values()) == set(parts)
    assert placed == cut_by_repository(dict(reversed(sizes.items())), parts, seed)


@pytest.mark.parametrize("seed", range(4))
def test_lite_is_split_as_near_as_its_twelve_repositories_allow(seed):
    parts = parse_parts("train=0.9,eval=0.1")
    assert count(LITE, cut_by_repository(LITE, parts, seed)) == {"train": 270, "eval": 30}
    parts = parse_parts("train=0.8,dev=0.1,eval=0.1")
    found = count(LITE, cut_by_repository(LITE, parts, seed))
    assert all(abs(found[part.name] - part.share * 300) <= 1 for part in parts)


def test_the_nearest_sum_is_not_taken_where_it_leaves_a_later_part_without_a_repository():
    sizes, third = {"a": 1, "b": 1, "c": 10}, 1 / 3
    placed = cut_by_repository(sizes, [Part("x", third), Part("y", third), Part("z", third)], 0)
    assert sorted(count(sizes, placed).values()) == [1, 1, 10]
    assert sorted(choose_nearest(sizes, 2.0, 1)) == ["a", "b"] and len(choose_nearest(sizes, 2.0, 2)) == 1


def test_the_seed_chooses_among_equal_splits_alone():
    sizes, parts = dict.fromkeys("abcdef", 5), parse_parts("train=0.5,eval=0.5")
    splits = [cut_by_repository(sizes, parts, seed) for seed in range(8)]
    assert len({tuple(sorted(name for name in split if split[name] == parts[0])) for split in splits}) > 1
    assert all(count(sizes, split) == {"train": 15, "eval": 15} for split in splits)
