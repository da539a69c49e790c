"""A layout of its own for each stage of a pipeline."""
