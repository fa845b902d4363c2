"""A byte-level BPE tokenizer with ChatML, trained in a moment, that can spell any text."""

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from turnsmith.chat.renderer import ChatRenderer

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = ["def total(values):\n    return sum(values)\n\n\nsystem user assistant command submit the\n"] * 20


def make_tokenizer(template=CHATML, special=("<|im_start|>", "<|im_end|>"), eos="<|im_end|>"):
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=340, special_tokens=["<|endoftext|>", *special], initial_alphabet=alphabet, show_progress=False
    )
    core.train_from_iterator(CORPUS, trainer)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=eos, pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def renderer(tokenizer):
    return ChatRenderer(tokenizer)


@pytest.fixture(scope="session")
def tokenizer_maker():
    return make_tokenizer
