"""Boards in the cells of a notebook."""
