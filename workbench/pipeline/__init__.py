"""Pipelines: the tasks of a step in schedule order, and their costs. Uses neither devices nor JAX."""
