"""Chat template as configured, rendered to text with a fixed date."""

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import TemplateError

from turnsmith.config import ChatConfig
from turnsmith.io.files import read_text

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

_DIRECTIVES = "aAbBdmyYHIMSpjUwWcxX"
"""strftime directives with the same result on every machine."""


Messages = list[dict[str, str]]
"""Chat messages: `[{"role": "user", "content": "…"}, …]`."""
TODAY = date(2024, 7, 26)
"""Date that templates show, so that a resumed run has the same prompts."""
OWN = ("as-shipped", "keep-turns")
"""Values of `model.chat.template` that use the model's own template; any other is a file."""


class TemplateFault(Exception):
    """Reason why a template is unusable, phrased to follow its name."""


def render(tokenizer: "PreTrainedTokenizerBase", chat: ChatConfig, messages: Messages) -> str:
    """Render the conversation up to the next sampled turn. Raises TemplateFault."""
    try:
        template = pin_date(tokenizer.get_chat_template())
        return str(
            tokenizer.apply_chat_template(messages, chat_template=template, tokenize=False, add_generation_prompt=True)
        )
    except (TemplateError, TypeError, ValueError) as error:
        roles = " and ".join(dict.fromkeys(message["role"] for message in messages))
        raise TemplateFault(f"cannot render messages of {roles} ({error})") from None


def read_template(path: str) -> str:
    """Read a custom template. Raises UsageError if there is no such file."""
    remedy = "give model.chat.template a Jinja file, as-shipped, or keep-turns"
    return read_text(Path(path), "the chat template", remedy)


def pin_date(template: str) -> str:
    """Return the template with its date fixed to `TODAY`.

    transformers gives templates `strftime_now`, which reads the clock and cannot be replaced; a macro of the same name
    takes precedence.
    """
    if "strftime_now" not in template:
        return template
    replacements = "".join(f"|replace('%{letter}', {TODAY.strftime(f'%{letter}')!r})" for letter in _DIRECTIVES)
    # The empty expression keeps a leading newline of the template, which Jinja would drop after a block.
    return f"{{%- macro strftime_now(form) -%}}{{{{ form{replacements} }}}}{{%- endmacro -%}}{{{{ '' }}}}{template}"
