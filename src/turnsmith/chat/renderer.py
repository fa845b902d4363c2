"""Renderer of conversations as token ids. Tokens are only appended, and sampled tokens are never tokenised again.

The chat template is rendered once, to find its fixed text around messages (`template`). A message is tokenised together with
the adjacent fixed text, as in a rendering of the whole conversation. The name of a special token in a message, such as
`<|im_end|>` in an issue, is tokenised as ordinary text. Templates for tool calls are not supported.
"""

import copy
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from turnsmith.chat.template import OBSERVATION, PADDED, SYSTEM, USER, derive_glue, name
from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

AS_SHIPPED = ChatConfig()
_WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
"""White space that tokenizers strip beside some special tokens; `str.strip` would strip other characters too."""


class ChatRenderer:
    """Renderer of messages as token ids, with a tokenizer's chat template.

    A sampled turn ends with the template's end-of-turn token, the tokenizer's end-of-sequence token, or one of
    `stop_token_ids`. The constructor raises UsageError if the template is missing, fails, or is not append-only.
    """

    tokenizer: "PreTrainedTokenizerBase"
    """Copy of the tokenizer that adds no space at the start of a text."""
    end_of_turn_id: int
    """Id of the token that ends an assistant turn in the chat template."""
    stop_token_ids: frozenset[int]
    """Ids of the tokens that end a sampled turn."""

    def __init__(
        self,
        tokenizer: "PreTrainedTokenizerBase",
        chat: ChatConfig = AS_SHIPPED,
        stop_token_ids: Iterable[int] = (),
    ) -> None:
        self.tokenizer = without_first_space(tokenizer)
        added: dict[int, Any] = tokenizer.added_tokens_decoder
        self._special = {token.content: token_id for token_id, token in added.items() if token.special}
        self._strips_left = {token_id for token_id, token in added.items() if token.lstrip}
        self._strips_right = {token_id for token_id, token in added.items() if token.rstrip}
        glue = derive_glue(tokenizer, chat)
        self._prompt_pieces = self._split(glue.prompt)
        self._glue_pieces = self._split(glue.between)
        self._lead = glue.lead
        *_, before, last = [None, *self._prompt_pieces]
        self._context = self._trim(before, last, None) if isinstance(last, str) else ""
        self._is_folded = chat.system_prompt == "first-user-message"
        self.end_of_turn_id = self._find_end_of_turn()
        self.stop_token_ids = frozenset({self.end_of_turn_id, tokenizer.eos_token_id, *stop_token_ids} - {None})
        self._check_against_whole(tokenizer, glue.prompt, glue.between)

    def prompt_ids(self, system: str, user: str) -> list[int]:
        """Return the token ids of the first prompt, up to the first sampled turn."""
        contents = {USER: f"{system}\n\n{user}"} if self._is_folded else {SYSTEM: system, USER: user}
        return self._fill(self._prompt_pieces, contents)

    def observation_ids(self, text: str, after: int) -> list[int]:
        """Return the token ids between two sampled turns: end of turn, observation, start of the next turn.

        `after` is the last sampled token. If it is not the end-of-turn token, as in a turn cut at a length limit, the result
        begins with that token.
        """
        token_ids = self._fill(self._glue_pieces, {OBSERVATION: text})
        return token_ids[1:] if after == self.end_of_turn_id else token_ids

    def reply_ids(self, text: str) -> list[int]:
        """Return the token ids of a turn by another agent, with end-of-turn token, as if it stood right after the prompt."""
        before, both = self.content_ids(self._context), self.content_ids(self._context + self._lead + text)
        is_whole = both[: len(before)] == before
        token_ids = both[len(before) :] if is_whole else self.content_ids(self._lead + text)
        return [*token_ids, self.end_of_turn_id]

    def turn_text(self, token_ids: list[int]) -> str:
        """Decode the token ids of a sampled turn, without its stop token but with other special tokens."""
        ended = token_ids[-1:] and token_ids[-1] in self.stop_token_ids
        shown = token_ids[:-1] if ended else token_ids
        return str(self.tokenizer.decode(shown, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def content_ids(self, text: str) -> list[int]:
        """Return the token ids of a text. Names of special tokens in it are tokenised as ordinary text."""
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def _split(self, rendering: str) -> list[int | str]:
        """Split a rendered text into the ids of special tokens and pieces of plain text."""
        if not self._special:
            return [rendering]
        longest_first = sorted(self._special, key=len, reverse=True)
        parts = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", rendering)
        return [self._special.get(part, part) for part in parts if part]

    def _fill(self, pieces: list[int | str], contents: dict[str, str]) -> list[int]:
        """Replace the markers (stand-ins for messages) in pieces of a rendered template by messages; tokenise piece by piece."""
        token_ids: list[int] = []
        for before, piece, after in zip([None, *pieces], pieces, [*pieces[1:], None], strict=False):
            if isinstance(piece, int):
                token_ids.append(piece)
                continue
            token_ids.extend(self.content_ids(self._trim(before, put(contents, piece), after)))
        return token_ids

    def _trim(self, before: int | str | None, text: str, after: int | str | None) -> str:
        """Strip white space at each end of a text where the adjacent special token (`before`, `after`) strips white space."""
        text = text.lstrip(_WHITE_SPACE) if before in self._strips_right else text
        return text.rstrip(_WHITE_SPACE) if after in self._strips_left else text

    def _find_end_of_turn(self) -> int:
        first = self._glue_pieces[0]
        if isinstance(first, int):
            return first
        raise UsageError(
            f"the chat template of {name(self.tokenizer)} ends a turn with the text {first!r}, not with a special token: "
            "use a template whose turns end with one, so that sampling knows where to stop"
        )

    def _check_against_whole(self, tokenizer: "PreTrainedTokenizerBase", prompt: str, between: str) -> None:
        """Raise UsageError if tokenising a conversation piece by piece differs from tokenising it as a whole."""
        pieces = self._fill(self._prompt_pieces, PADDED), self._fill(self._glue_pieces, PADDED)
        if pieces != tuple(tokenizer.encode(text, add_special_tokens=False) for text in (prompt, between)):
            raise UsageError(
                f"the tokenizer of {name(tokenizer)} splits text differently by pieces than as a whole conversation: "
                "use one that does not add spaces or tokens at the start of a text"
            )


def put(contents: dict[str, str], piece: str) -> str:
    """Replace markers (stand-ins for messages) in a template piece; strip messages if the template strips white space."""

    def replace(match: re.Match[str]) -> str:
        text = contents[match["marker"]]
        text = text if match["left"] else text.lstrip()
        return text if match["right"] else text.rstrip()

    left, right = PADDED[SYSTEM].split(SYSTEM)
    return re.sub(rf"(?P<left>{left})?(?P<marker>{'|'.join(contents)})(?P<right>{right})?", replace, piece)


def without_first_space(tokenizer: "PreTrainedTokenizerBase") -> "PreTrainedTokenizerBase":
    """Return a copy of the tokenizer that adds no space at the start of a text."""
    if not _find_first_spaces(tokenizer):
        return tokenizer
    changed = copy.deepcopy(tokenizer)
    for step in _find_first_spaces(changed):
        step.prepend_scheme = "never"
    return changed


def _find_first_spaces(tokenizer: "PreTrainedTokenizerBase") -> list[Any]:
    outer: Any = tokenizer.backend_tokenizer.pre_tokenizer
    steps = outer if hasattr(outer, "__getitem__") else [outer]  # step sequences have no length
    return [step for step in steps if getattr(step, "prepend_scheme", "") == "first"]
