"""A decoder Transformer with the choices of today's models: Llama, Gemma, Mistral and their like."""
