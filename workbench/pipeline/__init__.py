"""Pipelines: the tasks of a step in the order that a schedule gives them, and their costs. No device and no JAX."""
