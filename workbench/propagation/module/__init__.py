"""A StableHLO module in MLIR: read, named, numbered, and a plan's statements written into it."""
