"""Pipelines: the tasks of a step in the order a schedule gives them, and what that costs. No device and no JAX."""
