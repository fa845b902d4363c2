"""Mistakes of the expert: a search for a misspelt name finds nothing."""

import random
import string

from hypothesis import example, given
from hypothesis import strategies as st

from turnsmith.agent.expert.mistakes import misspell


@given(st.text(string.ascii_lowercase + "_", min_size=1, max_size=12), st.integers(0, 99))
@example("process", 0)
@example("process", 1)
@example("aaaa", 0)
def test_a_search_for_a_misspelt_name_does_not_find_the_name(name, seed):
    wanted = misspell(name, random.Random(seed))
    assert wanted and not name.startswith(wanted)
