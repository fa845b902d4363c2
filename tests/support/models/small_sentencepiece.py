"""SentencePiece tokenizers, trained in a moment: spaces are letters, unknown letters are bytes, any text can be encoded."""

import json
from typing import Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from support.models.small_tokenizers import CORPUS

SPACE = "▁"
Spaces = Literal["before every text", "before the first text", "never"]
"""Place of an added space: Llama 2 and Phi-3; later Mistral models; Gemma."""


def make_sentencepiece(special: list, spaces: Spaces) -> Tokenizer:
    """Make a tokenizer with these special tokens."""
    pieces, merges = learn_pieces()
    vocabulary = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *pieces]
    ids = {piece: index for index, piece in enumerate(vocabulary)}
    core = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    steps = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if spaces == "before the first text":
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    else:
        first = [normalizers.Prepend(SPACE)] if spaces == "before every text" else []
        core.normalizer = normalizers.Sequence([*first, normalizers.Replace(" ", SPACE)])
    core.decoder = decoders.Sequence(steps if spaces == "never" else [*steps, decoders.Strip(" ", 1, 0)])
    core.add_special_tokens(special)
    return core


def learn_pieces() -> tuple[list[str], list[tuple[str, str]]]:
    """Learn pieces and merges from a little text; spaces occur only at the start of a piece, and line breaks are not merged."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex("\n"), "isolated"), pre_tokenizers.Metaspace(prepend_scheme="never")]
    )
    core.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=90, show_progress=False, initial_alphabet=[SPACE]))
    model = json.loads(core.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].get)
    return [piece for piece in pieces if piece != "\n"], [tuple(merge) for merge in model["merges"]]
