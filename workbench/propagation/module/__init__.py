"""A StableHLO module in MLIR: reading, naming and numbering it, and writing a plan's statements into it."""
