"""Planner processes of the team server: rooms and plan descriptions. They import JAX; the server never does."""
