"""Conversations as token ids that only grow: what was sampled is never tokenised again.

The chat template is rendered once, with markers in the place of contents. What stands between the markers is the glue
of the template: before and after the first prompt, and between the end of one sampled turn and the start of the next.
Contents are tokenised together with the plain text around them, as a rendering of the whole would, but with special
tokens switched off: an issue or an observation that spells `<|im_end|>` stays text.

Left out: tool-calling templates, and templates that rewrite earlier turns (for example, drop their reasoning); the
latter are refused, since a sequence that is rewritten is not the one that was sampled.
"""

import re
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Messages = list[dict[str, str]]
"""Chat messages: `[{"role": "user", "content": "…"}, …]`."""

_SYSTEM, _USER = "TURNSMITH-SYSTEM", "TURNSMITH-USER"
_REPLIES = ("<think>\nTURNSMITH-THOUGHT\n</think>\n\nTURNSMITH-REPLY-1", "TURNSMITH-REPLY-2")
_OBSERVATION = "TURNSMITH-OBSERVATION"
_NO_TOKEN = -1


class ChatRenderer:
    """Turns contents into token ids under the chat template of a tokenizer.

    Raises UsageError at construction where the template is missing, fails, or is not append-only.
    """

    tokenizer: "PreTrainedTokenizerBase"
    end_of_turn_id: int
    """Token with which the template ends an assistant turn."""
    stop_token_ids: frozenset[int]
    """Tokens that end a sampled turn: the template's and the tokenizer's own."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase") -> None:
        self.tokenizer = tokenizer
        added: dict[int, Any] = tokenizer.added_tokens_decoder
        self._special = {token.content: token_id for token_id, token in added.items() if token.special}
        prompt, glue = self._derive_glue()
        self._prompt_pieces = self._split(prompt)
        self._glue_pieces = self._split(glue)
        self.end_of_turn_id = self._find_end_of_turn()
        self.stop_token_ids = frozenset({self.end_of_turn_id, tokenizer.eos_token_id} - {None})
        self._check_against_whole(prompt, glue)

    def prompt_ids(self, system: str, user: str) -> list[int]:
        """Token ids of the first prompt, up to where the first turn is sampled."""
        return self._fill(self._prompt_pieces, {_SYSTEM: system, _USER: user})

    def observation_ids(self, text: str, after: int) -> list[int]:
        """Token ids between a sampled turn and the next: end of turn, the observation, start of the next turn.

        `after` is the last sampled token. Where it is not the template's end of turn (the turn was cut by length), the
        glue begins with that token; it was not sampled, so it is not trained.
        """
        ended = after == self.end_of_turn_id
        return self._fill(self._glue_pieces[1:] if ended else self._glue_pieces, {_OBSERVATION: text})

    def turn_text(self, token_ids: list[int]) -> str:
        """Text of a sampled turn without its stop token; other special tokens stay visible."""
        ended = token_ids[-1:] and token_ids[-1] in self.stop_token_ids
        shown = token_ids[:-1] if ended else token_ids
        return str(self.tokenizer.decode(shown, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def content_ids(self, text: str) -> list[int]:
        """Token ids of plain text; special tokens in it stay text."""
        return self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)

    def _derive_glue(self) -> tuple[str, str]:
        """The first prompt and what comes between two turns, both with markers for contents."""
        renderings = [self._render(_probe(num_turns)) for num_turns in range(3)]
        beginnings = [rendering + reply for rendering, reply in zip(renderings, _REPLIES, strict=False)]
        glues = {whole.removeprefix(begun) for begun, whole in zip(beginnings, renderings[1:], strict=True)}
        if len(glues) > 1 or not renderings[1].startswith(beginnings[0]):
            raise UsageError(
                f"the chat template of {self._name} is not append-only (it rewrites earlier turns, for example drops their "
                "reasoning): give the model directory a template that keeps every turn as it was sampled"
            )
        [prompt, *_], [glue] = renderings, glues
        # A template that drops or repeats a content would lie to the policy without a word.
        if [prompt.count(_SYSTEM), prompt.count(_USER), glue.count(_OBSERVATION)] != [1, 1, 1]:
            raise UsageError(
                f"the chat template of {self._name} does not show each message once: "
                "use a chat template with system, user and assistant messages"
            )
        return prompt, glue

    def _render(self, messages: Messages) -> str:
        try:
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except (TemplateError, ValueError) as error:
            raise UsageError(
                f"the chat template of {self._name} cannot render a system message and turns ({error}): "
                "use a model with a chat template that can"
            ) from None

    def _split(self, rendering: str) -> list[int | str]:
        """Special tokens as ids, plain text between them as text."""
        if not self._special:
            return [rendering]
        longest_first = sorted(self._special, key=len, reverse=True)
        parts = re.split("(" + "|".join(map(re.escape, longest_first)) + ")", rendering)
        return [self._special.get(part, part) for part in parts if part]

    def _fill(self, pieces: list[int | str], contents: dict[str, str]) -> list[int]:
        """Put contents in the place of their markers and tokenise piece by piece."""
        marker = re.compile("|".join(contents))
        token_ids: list[int] = []
        for piece in pieces:
            if isinstance(piece, int):
                token_ids.append(piece)
            else:
                token_ids.extend(self.content_ids(marker.sub(lambda match: contents[match[0]], piece)))
        return token_ids

    def _find_end_of_turn(self) -> int:
        first = self._glue_pieces[0]
        if isinstance(first, int):
            return first
        raise UsageError(
            f"the chat template of {self._name} ends a turn with the text {first!r}, not with a special token: "
            "use a template whose turns end with one, so that sampling knows where to stop"
        )

    def _check_against_whole(self, prompt: str, glue: str) -> None:
        """Tokenising piece by piece must give what tokenising the whole rendering gives."""
        pieces = self.prompt_ids(_SYSTEM, _USER), self.observation_ids(_OBSERVATION, after=_NO_TOKEN)
        wholes = (self.tokenizer.encode(text, add_special_tokens=False) for text in (prompt, glue))
        if pieces != tuple(wholes):
            raise UsageError(
                f"the tokenizer of {self._name} splits text otherwise in pieces than in a whole conversation: "
                "use one that does not add spaces or tokens at the start of a text"
            )

    @property
    def _name(self) -> str:
        return self.tokenizer.name_or_path or "this tokenizer"


def _probe(num_turns: int) -> Messages:
    """A conversation of `num_turns` turns and observations, with markers for contents."""
    messages = [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": _USER}]
    for reply in _REPLIES[:num_turns]:
        messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": _OBSERVATION})
    return messages
