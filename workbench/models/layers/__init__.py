"""Shared parts of the zoo's models: blocks, normalisation, losses, weights."""
