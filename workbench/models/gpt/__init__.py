"""A decoder-only Transformer as GPT-2 and GPT-3 are."""
