"""Tokenizer of the tiny base: byte-level BPE for any text, ChatML, 656 tokens.

Words, digits, spaces and operators are split before merging. So a line of code has the same tokens in a file window, in quotes
and in a heredoc. This lets a policy of a million parameters copy it. ` + "/" + ` is one operator, so that a name always precedes
the text to copy. Each fixed phrase of the scaffold (`PHRASES`) is one token, which keeps turns and prompts short. Other
prompts work too, with more tokens.
"""

from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

VOCABULARY_SIZE = 656
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PIECES = r""" [^\w\s'"`]{1,2} ("[^\w\s]" [^\w\s'"`]{1,2} )?|[A-Za-z]+|[0-9]|\n+| +|_|[^\w\s]+|[^\x00-\x7f]+"""
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


PHRASES = [
    "You fix the issue of a repository in a terminal. Each turn: a short thought, then one command:\n",
    "```command\nCOMMAND\n```\n",
    "Tools: create, edit, goto, open, replace, scroll_down, scroll_up, search_file, submit. "
    "Anything else is a shell command. `submit` ends the session.",
    "system\n",
    "user\n",
    "assistant\n",
    "# ISSUE DESCRIPTION\n",
    "One test fails:\n\n",
    " tests fail:\n\n",
    "AssertionError: ",
    "Find the code, fix it, then submit.\n",
    "(Current directory: ",
    ", current file: ",
    ") bash-$",
    "[File: ",
    " lines total)]\n",
    " more lines above)\n",
    " more lines below)\n",
    "/testbed",
    " replaced. ",
    "File updated. Review the changes (indentation, duplicate lines) and edit again if needed.\n",
    "Error: no command could be extracted, so nothing was run.",
    "Error: multiple commands were extracted, so nothing was run.",
    " Write your reasoning, then exactly one block:\n```command\nCOMMAND\n```\n",
    "\n```command\n",
    "\n```",
    'grep -rn "def ',
    '" .',
    "Find ",
    "Look at it.",
    "Fix it.",
    "Done.",
    "open ./",
    "submit",
    ".py",
    " << 'EOF'\n",
    "\nEOF",
    "return ",
    "def ",
    "    ",
    "        ",
    "            ",
    '"""Here ',
    " is ",
    " if ",
    " is never above ",
    " is never below ",
    " adds up each of the ",
    " adds up each ",
    " of the ",
    ", else ",
]
"""Phrases of the scaffold and of docstrings. ` is ` in a docstring corresponds to ` = ` in code, one token for one."""


def train_tokenizer(texts: Iterable[str]) -> PreTrainedTokenizerFast:
    """Train the tokenizer on texts."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=VOCABULARY_SIZE - len(PHRASES),
            special_tokens=SPECIAL_TOKENS,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.add_tokens([AddedToken(phrase, normalized=False) for phrase in PHRASES])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>"],
        chat_template=CHATML,
        clean_up_tokenization_spaces=False,
    )


def save_tokenizer(tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Write tokenizer.json, its configuration and the chat template."""
    tokenizer.save_pretrained(folder)
