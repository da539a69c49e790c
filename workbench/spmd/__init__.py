"""Runs XLA's partitioner in this process, and reads HLO modules. The only package that uses protobuf."""
