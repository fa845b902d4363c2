import pytest

from support.models.small_tokenizers import make_tokenizer
from turnsmith.chat.renderer import ChatRenderer


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture(scope="session")
def renderer(tokenizer):
    return ChatRenderer(tokenizer)


@pytest.fixture(scope="session")
def tokenizer_maker():
    return make_tokenizer
