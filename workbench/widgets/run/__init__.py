"""Runs and compilations as the board shows them."""
