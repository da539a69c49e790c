"""Searches in a process of their own: the planner keeps Python busy for a fifth of a second at a time, which a board must not feel."""
