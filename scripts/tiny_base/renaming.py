"""Renaming: lessons with new names, so that the policy learns to copy names instead of memorising them.

Tools do not depend on names. So an episode with consistently exchanged names equals the episode played with them.
"""

import itertools
import random
import re
from collections import Counter
from dataclasses import dataclass

from transformers import PreTrainedTokenizerFast

from tiny_base.imitation import make_sample
from turnsmith.synthesis.practice.repository import invent_word
from turnsmith.types import Sample

WORD = re.compile("[A-Za-z]+")
COMMON = 0.06
"""Share of lessons above which a word belongs to the scaffold or to Python and is kept."""
KEPT = 0.25
"""Share of names that are kept."""
LONG = 0.1
"""Share of new names that consist of two words."""


@dataclass(frozen=True)
class Script:
    """Sample as pieces of text and special tokens; the flag of a piece is True if it is in the loss."""

    pieces: tuple[tuple[bool, str | int], ...]

    @property
    def words(self) -> set[str]:
        return {word for _, piece in self.pieces if isinstance(piece, str) for word in WORD.findall(piece)}


def to_script(sample: Sample, tokenizer: PreTrainedTokenizerFast) -> Script:
    """Split a sample at special tokens and at changes of the loss mask, and decode the pieces between."""
    special = set(tokenizer.all_special_ids)
    pieces: list[tuple[bool, str | int]] = []
    for (in_loss, is_special), run in itertools.groupby(
        zip(sample.loss_mask.tolist(), sample.token_ids.tolist(), strict=True),
        key=lambda pair: (pair[0], pair[1] in special),
    ):
        token_ids = [token_id for _, token_id in run]
        if is_special:
            pieces += [(in_loss, token_id) for token_id in token_ids]
        else:
            pieces.append((in_loss, str(tokenizer.decode(token_ids, clean_up_tokenization_spaces=False))))
    return Script(tuple(pieces))


def find_common_words(scripts: list[Script]) -> set[str]:
    """Return the words that are not names."""
    counts = Counter(word for script in scripts for word in script.words)
    return {word for word, count in counts.items() if count > COMMON * len(scripts)}


def invent_name(rng: random.Random) -> str:
    """Invent a word, sometimes a compound, so that the policy copies names of every length."""
    return invent_word(rng) + (invent_word(rng) if rng.random() < LONG else "")


def rename(script: Script, fixed: set[str], tokenizer: PreTrainedTokenizerFast, rng: random.Random) -> Sample:
    """Return the sample with new names. The plural of a name becomes the plural of its new name."""
    names = sorted(script.words - fixed)
    new = {name: name if rng.random() < KEPT else invent_name(rng) for name in names}
    new |= {name: new[name[:-1]] + "s" for name in names if name.endswith("s") and name[:-1] in new}
    token_ids: list[int] = []
    loss_mask: list[bool] = []
    for in_loss, piece in script.pieces:
        ids = [piece] if isinstance(piece, int) else tokenizer.encode(
            WORD.sub(lambda match: new.get(match[0], match[0]), piece), add_special_tokens=False
        )  # fmt: skip
        token_ids += ids
        loss_mask += [in_loss] * len(ids)
    return make_sample(token_ids, loss_mask)
