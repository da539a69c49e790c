"""The cost of a partitioned program for a device: memory over the step, FLOP and traffic, time."""
