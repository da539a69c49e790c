"""What stages cost, and a layout of its own for each stage of a pipeline."""
