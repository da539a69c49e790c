"""A traced loss in blocks, partitioned into pipeline stages; a stage's work for a micro-batch and at the end of a step."""
