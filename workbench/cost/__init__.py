"""The cost of a partitioned program on one device: memory, FLOP, traffic and time."""
