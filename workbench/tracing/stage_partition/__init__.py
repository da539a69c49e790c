"""A traced loss in blocks, partitioned into the stages of a pipeline; what a stage computes for a micro-batch and at the end."""
