"""Runners for boards: the engine's worker processes, with a queue where many boards share them."""
