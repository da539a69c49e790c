"""Gradient accumulation: steps over micro-batches, whose gradients are summed before one update."""
