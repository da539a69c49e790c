"""Figures that no plan below a node of the search can beat, from the costs of blocks."""
