"""A chat template as the configuration wants it used: rendered to text, on a day that does not change."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from turnsmith.config import ChatConfig
from turnsmith.errors import UsageError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DIRECTIVES = "aAbBdmyYHIMSpjUwWcxX"
"""Those of strftime that say the same on every machine."""


Messages = list[dict[str, str]]
"""Chat messages: `[{"role": "user", "content": "…"}, …]`."""
OWN = ("as-shipped", "keep-turns")
"""Values of `model.chat.template` that take the model's own template; any other is a file."""


class TemplateFault(Exception):
    """Why a template cannot serve, as the end of a sentence that begins with its name."""


def render(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig, messages: Messages) -> str:
    """The conversation up to where the next turn is sampled. Raises TemplateFault."""
    try:
        template = pin_date(tokenizer.get_chat_template(), chat.date)
        return str(
            tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
        )
    except (TemplateError, TypeError, ValueError) as error:
        roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
        raise TemplateFault(f"cannot render messages of {roles} ({error})") from None


def read_template(path: str) -> str:
    """A template of the user's own. Raises UsageError where there is no such file."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"cannot read the chat template {path} ({reason}): give model.chat.template a Jinja file, "
            "as-shipped, or keep-turns"
        ) from None


def pin_date(template: str, day: date) -> str:
    """The same template, for which today is that day.

    transformers offers templates `strftime_now`, which reads the clock, and passes no function of ours; a macro of that
    name comes before it.
    """
    if "strftime_now" not in template:
        return template
    replacements = "".join(f"|replace('%{letter}', {day.strftime(f'%{letter}')!r})" for letter in _DIRECTIVES)
    # The empty expression keeps a newline with which the template begins: after a block, Jinja would drop it.
    return f"{{%- macro strftime_now(form) -%}}{{{{ form{replacements} }}}}{{%- endmacro -%}}{{{{ '' }}}}{template}"
