"""Rendering of conversations to text with the configured chat template and a fixed date."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from turnsmith.config import ChatConfig
from turnsmith.io.files import read_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DIRECTIVES = "aAbBdmyYHIMSpjUwWcxX"
"""Directives of strftime whose result is the same on every machine."""


Messages = list[dict[str, str]]
"""Chat messages: `[{"role": "user", "content": "…"}, …]`."""
TODAY = date(2024, 7, 26)
"""Date that chat templates show, fixed so that a resumed run has the same prompts."""
OWN = ("as-shipped", "keep-turns")
"""Values of `model.chat.template` that use the model's own template; any other value is the path of a template."""


class TemplateFault(Exception):
    """Error raised if a chat template is unusable; its message continues the words "the chat template"."""


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
