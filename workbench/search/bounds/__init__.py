"""Lower bounds on the figures of all plans below a search node, from the costs of blocks."""
