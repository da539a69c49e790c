"""A Transformer with a mixture of experts: DeepSeek-V2 and V3, Mixtral."""
