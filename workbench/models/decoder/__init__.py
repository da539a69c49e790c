"""A decoder Transformer with the architecture choices of Llama, Gemma, Mistral and similar models."""
