"""An encoder-decoder Transformer, T5."""
