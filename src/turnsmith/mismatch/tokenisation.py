"""Fault of an engine that tokenises the text of earlier turns again and so reads other tokens than the sampled ones."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedModel

from turnsmith.chat.renderer import ChatRenderer
from turnsmith.mismatch import forward
from turnsmith.mismatch.forward import Hypothesis
from turnsmith.types import Trajectory

Ids = Sequence[int]


class Retokenisation(NamedTuple):
    """Way in which an engine may tokenise earlier turns and observations again."""

    between: Callable[[Trajectory, int, Ids], Ids]
    """Function (trajectory, number of a turn, ids between that turn and the next) → ids that the engine reads instead."""
    turn: Callable[[Ids], Ids]
    """Function from a turn's sampled token ids to the ids that the engine reads instead in later prompts."""


def rescore_retokenised(retokenisation: Retokenisation, model: PreTrainedModel, trajectory: Trajectory) -> np.ndarray:
    """Compute the log-probs of each turn's sampled tokens, given a history that was tokenised again."""
    ids, turns = trajectory.token_ids, trajectory.turns
    context, as_sampled, rows = list(ids[: turns[0].start]), True, []
    pieces: list[tuple[Ids, bool]] = [([*context], False)]
    for number, turn in enumerate(turns):
        sampled = ids[turn.start : turn.end].tolist()
        rows.append(([*context], sampled))
        later = retokenisation.turn(sampled)
        as_sampled = as_sampled and list(later) == sampled
        end = turns[number + 1].start if number + 1 < len(turns) else turn.end
        between = retokenisation.between(trajectory, number, ids[turn.end : end].tolist()) if end > turn.end else []
        pieces += [(sampled, True), (between, False)]
        context += [*later, *between]
    if as_sampled:
        return score_pieces(model, pieces)
    return np.concatenate([score_pieces(model, [(history, False), (sampled, True)]) for history, sampled in rows])


def score_pieces(model: PreTrainedModel, pieces: Iterable[tuple[Ids, bool]]) -> np.ndarray:
    """Concatenate pieces, each given as (token ids, is wanted), and compute the log-probs of the wanted ones."""
    pieces = list(pieces)
    token_ids = np.concatenate([np.array(ids, np.int32) for ids, _ in pieces])
    wanted = np.concatenate([np.full(len(ids), is_wanted) for ids, is_wanted in pieces])
    return forward.score(model, token_ids, wanted)


def list_hypotheses(renderer: ChatRenderer) -> list[Hypothesis]:
    """List the hypotheses that an engine tokenises the text of earlier turns, or of observations, again."""

    def observed(change: Callable[[str], str]) -> Callable[[Trajectory, int, Ids], Ids]:
        def between(trajectory: Trajectory, number: int, recorded: Ids) -> Ids:
            turn = trajectory.turns[number]
            return renderer.observation_ids(change(turn.observation), after=int(trajectory.token_ids[turn.end - 1]))

        return between

    def retokenised(ids: Ids) -> Ids:
        """Decode token ids and tokenise the text again; text that spells a special token becomes that token."""
        tokenizer = renderer.tokenizer
        text = tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return tokenizer.encode(text, add_special_tokens=False)

    def recorded(trajectory: Trajectory, number: int, ids: Ids) -> Ids:
        return ids

    def retokenised_observation(trajectory: Trajectory, number: int, ids: Ids) -> Ids:
        return retokenised(ids)

    ways = {
        "observations tokenised from their text": Retokenisation(observed(str), list),
        "observations stripped of white space": Retokenisation(observed(str.strip), list),
        "observations with a space before them": Retokenisation(observed(lambda text: f" {text}"), list),
        "observations re-tokenised, special tokens in them seen as such": Retokenisation(retokenised_observation, list),
        "earlier turns re-tokenised": Retokenisation(recorded, retokenised),
    }
    return [Hypothesis("tokenisation", name, partial(rescore_retokenised, way)) for name, way in ways.items()]


def count_retokenised(renderer: ChatRenderer, trajectories: Iterable[Trajectory]) -> dict[str, int]:
    """Count the observations and turns whose tokens change if their text is tokenised again."""
    counts = {"observations": 0, "observations_differ": 0, "turns": 0, "turns_differ": 0}
    for trajectory in trajectories:
        ids, turns = trajectory.token_ids, trajectory.turns
        for turn, after in zip(turns, [*turns[1:], None], strict=True):
            sampled = ids[turn.start : turn.end].tolist()
            counts["turns"] += 1
            ended = sampled[-1] in renderer.stop_token_ids
            again = [*renderer.content_ids(turn.text), *([sampled[-1]] if ended else [])]
            counts["turns_differ"] += again != sampled
            if after:
                between = ids[turn.end : after.start].tolist()
                counts["observations"] += 1
                counts["observations_differ"] += between != renderer.observation_ids(
                    turn.observation, after=sampled[-1]
                )
    return counts
