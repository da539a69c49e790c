"""Steps over micro-batches, whose gradients are added up before one update."""
