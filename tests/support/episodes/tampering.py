"""Changes that a faulty program could make to a batch between engine and optimizer.

A change takes a random state, a sample and a sibling of it, and returns the changed sample.
"""

from dataclasses import replace

import numpy as np

from turnsmith.types import Link, MicroBatch, Sample
from turnsmith.types.samples import PROVEN


def shift_logprobs(rng, sample, other):
    """Shift all log-probs of a turn, as another temperature would."""
    return with_logprobs(sample, choose(rng, sample), lambda logprobs: logprobs - np.float32(rng.uniform(1e-3, 1)))


def round_logprobs(rng, sample, other):
    return with_logprobs(sample, slice(None), lambda logprobs: logprobs.astype(np.float16).astype(np.float32))


def move_one_logprob_by_one_ulp(rng, sample, other):
    at = rng.choice(sampled_places(sample))
    return with_logprobs(sample, at, lambda logprob: np.nextafter(logprob, np.float32(rng.choice([-np.inf, np.inf]))))


def logprobs_off_by_one(rng, sample, other):
    return replace(sample, sampled_logprobs=np.roll(sample.sampled_logprobs, rng.choice([-1, 1])))


def logprobs_of_another_turn(rng, sample, other):
    return with_logprobs(
        sample, choose(rng, sample), lambda own: np.resize(other.sampled_logprobs[choose(rng, other)], own.shape)
    )


def change_sampled_token(rng, sample, other):
    return with_token(rng, sample, rng.choice(sampled_places(sample)))


def change_observed_token(rng, sample, other):
    """Change a token of the prompt or of an observation."""
    return with_token(rng, sample, rng.choice(np.flatnonzero(~spans(sample))))


def tokenise_turn_again(rng, sample, other):
    """Replace the tokens of a turn by others, possibly of another number."""
    place = choose(rng, sample)
    again = rng.integers(0, 300, max(1, place.stop - place.start + int(rng.integers(-2, 3))))
    return splice(sample, place, again, np.resize(sample.sampled_logprobs[place], len(again)), is_sampled=True)


def drop_sampled_token(rng, sample, other):
    return drop(sample, int(rng.choice(sampled_places(sample))))


def drop_observed_token(rng, sample, other):
    return drop(sample, int(rng.choice(np.flatnonzero(~spans(sample)))))


def drop_turn(rng, sample, other):
    """Drop a turn but keep its link."""
    return cut(sample, choose(rng, sample))


def truncate(rng, sample, other):
    return cut(sample, slice(int(rng.integers(2, len(sample))), len(sample)))


def duplicate_turn(rng, sample, other):
    """Duplicate the tokens of a turn, and at random its link."""
    number = int(rng.integers(len(sample.provenance.links)))
    link = sample.provenance.links[number]
    place, after = slice(link.start, link.end), slice(link.end, link.end)
    doubled = splice(sample, after, sample.token_ids[place], sample.sampled_logprobs[place], is_sampled=link.trains)
    links = list(doubled.provenance.links)
    if rng.random() < 0.5:
        links[number : number + 1] = [link, replace(link, start=link.end, end=2 * link.end - link.start)]
    return with_links(doubled, links)


def swap_turn_with_sibling(rng, sample, other):
    """Replace a turn and its link by a sibling's."""
    number = int(rng.integers(min(len(sample.provenance.links), len(other.provenance.links))))
    mine, theirs = sample.provenance.links[number], other.provenance.links[number]
    source = slice(theirs.start, theirs.end)
    swapped = splice(
        sample,
        slice(mine.start, mine.end),
        other.token_ids[source],
        other.sampled_logprobs[source],
        is_sampled=mine.trains,
    )
    links = list(swapped.provenance.links)
    links[number] = replace(links[number], digest=theirs.digest, policy_version=theirs.policy_version)
    return with_links(swapped, links)


def swap_sibling(rng, sample, other):
    """Replace a sample by its sibling, keeping name and advantage."""
    advantages = np.full(len(other), sample.advantages[0])
    return replace(other, trajectory_id=sample.trajectory_id, group_id=sample.group_id, advantages=advantages)


def swap_turns(rng, sample, other):
    """Swap two turns, cut to the shorter one."""
    (a, b), logprobs = rng.permutation(len(sample.provenance.links))[:2], sample.sampled_logprobs.copy()
    a, b = sample.provenance.links[a], sample.provenance.links[b]
    num, token_ids = min(a.end - a.start, b.end - b.start), sample.token_ids.copy()
    for column in (token_ids, logprobs):
        first = column[a.start : a.start + num].copy()
        column[a.start : a.start + num] = column[b.start : b.start + num]
        column[b.start : b.start + num] = first
    return replace(sample, token_ids=token_ids, sampled_logprobs=logprobs)


def swap_versions(rng, sample, other):
    return with_links(
        sample,
        [replace(link, policy_version=other.provenance.links[0].policy_version) for link in sample.provenance.links],
    )


def next_version(rng, sample, other):
    links = list(sample.provenance.links)
    number = int(rng.integers(len(links)))
    links[number] = replace(links[number], policy_version=links[number].policy_version + 1)
    return with_links(sample, links)


def links_of_sibling(rng, sample, other):
    return replace(sample, provenance=other.provenance)


def move_span(rng, sample, other):
    """Move the start or end of a turn one token towards the beginning."""
    links = list(sample.provenance.links)
    number = int(rng.integers(len(links)))
    edge = rng.choice(["start", "end"])
    links[number] = replace(links[number], **{edge: getattr(links[number], edge) - 1})
    return with_links(sample, links)


def lose_digest(rng, sample, other):
    links = list(sample.provenance.links)
    number = int(rng.integers(len(links)))
    links[number] = replace(links[number], digest="")
    return with_links(sample, links)


def lose_provenance(rng, sample, other):
    return replace(sample, provenance=None)


def widen_mask(rng, sample, other):
    """Add a token of an observation or the prompt to the loss."""
    return with_mask(sample, rng.choice(np.flatnonzero(~sample.loss_mask)[1:]), True)


def narrow_mask(rng, sample, other):
    return with_mask(sample, rng.choice(np.flatnonzero(sample.loss_mask)), False) if sample.num_loss_tokens else sample


def mask_turn(rng, sample, other):
    return with_mask(sample, choose(rng, sample), False)


def unmask_turn(rng, sample, other):
    return with_mask(sample, choose(rng, sample), True)


def mask_off_by_one(rng, sample, other):
    mask = np.roll(sample.loss_mask, rng.choice([-1, 1]))
    mask[0] = False
    return replace(sample, loss_mask=mask)


def go_on_after_the_end(rng, sample, other):
    end = slice(len(sample), len(sample))
    return splice(sample, end, rng.integers(0, 300, 3), np.zeros(3, np.float32), is_sampled=False)


def other_prompt(rng, sample, other):
    """Change a token of the prompt in the link only."""
    prompt = sample.provenance.prompt
    seen = (prompt.sampled_behind if prompt else np.zeros(1, np.int32)).copy()
    seen[rng.integers(len(seen))] += 1
    if not prompt:
        return sample
    return replace(sample, provenance=replace(sample.provenance, prompt=replace(prompt, sampled_behind=seen)))


SAMPLE_MISTAKES = [
    shift_logprobs, round_logprobs, move_one_logprob_by_one_ulp, logprobs_off_by_one, logprobs_of_another_turn,
    change_sampled_token, change_observed_token, tokenise_turn_again, drop_sampled_token, drop_observed_token, drop_turn,
    truncate, duplicate_turn, swap_turn_with_sibling, swap_sibling, swap_turns, swap_versions, next_version,
    links_of_sibling, move_span, lose_digest, lose_provenance, widen_mask, narrow_mask, mask_turn, unmask_turn,
    mask_off_by_one, go_on_after_the_end, other_prompt,
]  # fmt: skip


def pack_in_another_order(rng, batch):
    """Reorder the samples within one column."""
    column = rng.choice(PROVEN)
    order = rng.permutation(len(batch.samples))
    return with_column(batch, column, np.concatenate([getattr(batch.samples[at], column) for at in order]))


def pack_off_by_one(rng, batch):
    column = rng.choice(PROVEN)
    return with_column(batch, column, np.roll(batch.column(column), rng.choice([-1, 1])))


def reorder_samples(rng, batch):
    """Reorder the list of samples in a batch but not its columns."""
    return MicroBatch([batch.samples[at] for at in rng.permutation(len(batch.samples))], batch.join().joined)


BATCH_MISTAKES = [pack_in_another_order, pack_off_by_one, reorder_samples]


def is_changed(sample: Sample, mistaken: Sample) -> bool:
    """Return True if the change affects anything that provenance covers."""
    return fingerprint(sample) != fingerprint(mistaken)


def is_batch_changed(batch: MicroBatch, mistaken: MicroBatch) -> bool:
    return batch_fingerprint(batch) != batch_fingerprint(mistaken)


def fingerprint(sample):
    prompt = sample.provenance and sample.provenance.prompt
    columns = [getattr(sample, column).tobytes() for column in PROVEN]
    return columns, sample.provenance and sample.provenance.links, prompt and prompt.sampled_behind.tobytes()


def batch_fingerprint(batch):
    columns = [batch.column(column).tobytes() for column in PROVEN]
    return columns, [(sample.trajectory_id, len(sample)) for sample in batch.samples]


def choose(rng, sample) -> slice:
    """Choose a random turn."""
    link: Link = sample.provenance.links[rng.integers(len(sample.provenance.links))]
    return slice(link.start, link.end)


def spans(sample):
    """Return a mask of the sampled tokens, in the loss or not."""
    sampled = np.zeros(len(sample), np.bool_)
    for link in sample.provenance.links:
        sampled[link.start : link.end] = True
    return sampled


def sampled_places(sample):
    return np.flatnonzero(spans(sample))


def with_logprobs(sample, place, change):
    logprobs = sample.sampled_logprobs.copy()
    logprobs[place] = change(logprobs[place])
    return replace(sample, sampled_logprobs=logprobs)


def with_token(rng, sample, at):
    token_ids = sample.token_ids.copy()
    token_ids[at] = (token_ids[at] + rng.integers(1, 300)) % 340
    return replace(sample, token_ids=token_ids)


def with_mask(sample, place, value):
    mask = sample.loss_mask.copy()
    mask[place] = value
    return replace(sample, loss_mask=mask)


def with_links(sample, links):
    return replace(sample, provenance=replace(sample.provenance, links=tuple(links)))


def with_column(batch, name, values):
    """Return a micro-batch with one column replaced."""
    return MicroBatch(batch.samples, batch.join().joined | {name: values})


def drop(sample, at):
    """Remove one token, moving later links."""
    return splice(sample, slice(at, at + 1), [], [], is_sampled=False)


def cut(sample, place):
    """Remove positions from all columns but keep the links."""
    kept = np.ones(len(sample), np.bool_)
    kept[place] = False
    return replace(sample, **{name: column[kept] for name, column in sample.columns().items()})


def splice(sample, place, token_ids, logprobs, *, is_sampled):
    """Replace tokens in the middle, moving later tokens and links."""

    def join(column, values):
        return np.concatenate([column[: place.start], np.asarray(values, column.dtype), column[place.stop :]])

    moved = len(token_ids) - (place.stop - place.start)
    links = [
        replace(
            link,
            start=link.start + moved * (link.start >= place.stop),
            end=link.end + moved * (link.end > place.start),
        )
        for link in sample.provenance.links
    ]
    changed = replace(
        sample,
        token_ids=join(sample.token_ids, token_ids),
        loss_mask=join(sample.loss_mask, [is_sampled] * len(token_ids)),
        sampled_logprobs=join(sample.sampled_logprobs, logprobs),
        advantages=np.full(len(sample) + moved, sample.advantages[0]),
    )
    return with_links(changed, links)
