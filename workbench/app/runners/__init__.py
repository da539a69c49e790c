"""Who runs and compiles for a board: the engine's worker processes, in turn where many boards share them."""
