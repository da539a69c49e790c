"""The stage board: stages, their figures, their step over time."""
