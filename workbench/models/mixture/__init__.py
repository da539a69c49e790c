"""A mixture-of-experts Transformer: DeepSeek-V2 and V3, Mixtral, GLaM."""
