"""A traced loss in blocks, cut into the stages of a pipeline; what a stage computes for a micro-batch and at the end."""
