"""Shared parts of the zoo's models: blocks, normalization, losses, weights."""
