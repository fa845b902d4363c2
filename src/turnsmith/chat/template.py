"""Rendering of the configured chat template with a fixed date, and its glue: the fixed text around messages.

The template is rendered with markers in place of messages; the text around the markers is the glue. A template is used as
shipped if it is append-only: a longer conversation only adds the reply and the same glue. With `keep-turns` a template may
drop or wrap earlier turns, as templates of thinking models do. Then the glue around the last turn is used for all turns, and
earlier turns stay as sampled. A template is refused if a longer conversation changes the prompt or earlier observations.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError
from turnsmith.io.files import read_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DIRECTIVES = "aAbBdmyYHIMSpjUwWcxX"
"""Directives of strftime that are filled with the fixed date `TODAY`, with equal results on every machine."""
Messages = list[dict[str, str]]
"""Chat messages: `[{"role": "user", "content": "…"}, …]`."""
TODAY = date(2024, 7, 26)
"""Date that chat templates show, fixed so that a resumed run has the same prompts."""
OWN = ("as-shipped", "keep-turns")
"""Values of `model.chat.template` that use the model's own template; any other value is the path of a template."""
SYSTEM, USER, OBSERVATION = "TURNSMITH-SYSTEM", "TURNSMITH-USER", "TURNSMITH-OBSERVATION"
PADDED = {marker: f" \n{marker}\n " for marker in (SYSTEM, USER, OBSERVATION)}
"""Marker → marker with white space around it, which shows whether a template trims messages."""
_REPLIES = _FIRST, _SECOND = "TURNSMITH-REPLY-1", "TURNSMITH-REPLY-2"
_THOUGHT = "<think>\nTURNSMITH-THOUGHT\n</think>\n\n"
_CONVERSATIONS = (
    *((_FIRST,), (_FIRST, _SECOND), (_FIRST, _THOUGHT + _SECOND)),
    *((_THOUGHT + _FIRST,), (_THOUGHT + _FIRST, _SECOND)),
)


class TemplateFault(Exception):
    """Error raised if a chat template is unusable. Its message is the rest of a sentence that begins `the chat template …`."""


def render(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig, messages: Messages) -> str:
    """Render a conversation to text, up to the start of the next assistant turn. Raises TemplateFault."""
    try:
        template = pin_date(tokenizer.get_chat_template())
        return str(
            tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
        )
    except (TemplateError, TypeError, ValueError) as error:
        roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
        raise TemplateFault(f"cannot render messages of {roles} ({error})") from None


def read_template(path: str) -> str:
    """Read a chat template file of the user. Raises UsageError if it cannot be read."""
    remedy = "give model.chat.template a Jinja file, as-shipped, or keep-turns"
    return read_text(Path(path), "the chat template", remedy)


def pin_date(template: str) -> str:
    """Return a chat template that shows `TODAY` as its date.

    The library transformers passes templates the function `strftime_now`, which reads the clock. A macro of that name in the
    template takes precedence.
    """
    if "strftime_now" not in template:
        return template
    replacements = "".join(f"|replace('%{letter}', {TODAY.strftime(f'%{letter}')!r})" for letter in _DIRECTIVES)
    # The empty expression keeps a leading newline of the template, which Jinja would drop after a block.
    return f"{{%- macro strftime_now(form) -%}}{{{{ form{replacements} }}}}{{%- endmacro -%}}{{{{ '' }}}}{template}"


@dataclass(frozen=True)
class Glue:
    """Fixed text of a chat template, with markers in place of messages."""

    prompt: str
    """Text from the beginning of the conversation to the first sampled turn."""
    between: str
    """Text from the end of a sampled turn to the beginning of the next one."""
    lead: str
    """White space that the template puts before a reply. It is not part of the prompt: the policy samples it with its turn."""


def derive_glue(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig) -> Glue:
    """Derive the fixed text of a tokenizer's chat template.

    Raises UsageError if the template fails, omits or repeats a message, or rewrites earlier text.
    """
    try:
        return _derive(tokenizer, chat)
    except TemplateFault as fault:
        raise UsageError(f"the chat template of {name(tokenizer)} {fault}: {_remedy(tokenizer, chat)}") from None


def find_choice(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig) -> ChatConfig | None:
    """Return settings with which the chat template can be used, as close to `chat` as possible; None if there are none."""
    templates = sorted(OWN, key=lambda way: way != chat.template) if chat.template in OWN else [chat.template]
    for template in templates:
        for system_prompt in ("system-message", "first-user-message"):
            choice = chat.model_copy(update={"template": template, "system_prompt": system_prompt})
            try:
                _derive(tokenizer, choice)
            except TemplateFault:
                continue
            return choice
    return None


def name(tokenizer: "PreTrainedTokenizerBase") -> str:
    """Return the tokenizer's name for error messages."""
    return tokenizer.name_or_path or "this tokenizer"


def _remedy(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig) -> str:
    if choice := find_choice(tokenizer, chat):
        keys = {"template": choice.template, "system_prompt": choice.system_prompt}
        changes = [f"--model.chat.{key} {value}" for key, value in keys.items() if value != getattr(chat, key)]
        return f"use {' '.join(changes)}"
    return "give --model.chat.template the path of one that shows every message once and keeps every turn"


def _derive(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig) -> Glue:
    def show(*replies: str) -> str:
        return render(tokenizer, chat, [*opening, *_turns(replies)])

    is_folded = chat.system_prompt == "first-user-message"
    markers = [("user", USER)] if is_folded else [("system", SYSTEM), ("user", USER)]
    opening = [{"role": role, "content": PADDED[marker]} for role, marker in markers]
    prompt, [before, _, between] = show(), show(_FIRST).rpartition(_FIRST)
    set_before = before.removeprefix(prompt)
    glue = Glue(prompt, between, lead=set_before if set_before.isspace() else "")
    check = _check_rest_stays if chat.template == "keep-turns" else _check_append_only
    for replies in _CONVERSATIONS:
        check(glue, replies, show(*replies))
    # A template that drops or repeats a message would change the prompt silently.
    counts = [text.count(marker) for text in (glue.prompt, glue.between) for marker in PADDED]
    if counts != [int(not is_folded), 1, 0, 0, 0, 1]:
        raise TemplateFault("does not render each message exactly once")
    return glue


def _check_append_only(glue: Glue, replies: tuple[str, ...], whole: str) -> None:
    """Raise TemplateFault unless `whole`, a conversation with these replies, is the prompt and then each reply with the glue."""
    if whole != glue.prompt + "".join(glue.lead + reply + glue.between for reply in replies):
        raise TemplateFault("is not append-only (it rewrites earlier turns, for example drops their reasoning)")


def _check_rest_stays(glue: Glue, replies: tuple[str, ...], whole: str) -> None:
    """Raise TemplateFault if `whole`, a conversation with these replies, changes the prompt or the glue."""
    before, *afters = re.split("|".join(_REPLIES), whole)
    shown = [_head(before, USER), *(_head(after, OBSERVATION) for after in afters[:-1]), *afters[-1:]]
    heads = [_head(glue.between, OBSERVATION)] * (len(replies) - 1)
    if shown != [_head(glue.prompt, USER), *heads, glue.between]:
        raise TemplateFault("is not append-only (it rewrites more than the replies of earlier turns)")


def _turns(replies: Iterable[str]) -> Messages:
    observation = {"role": "user", "content": PADDED[OBSERVATION]}
    return [message for reply in replies for message in ({"role": "assistant", "content": reply}, observation)]


def _head(text: str, marker: str) -> str:
    return text.partition(marker)[0]
