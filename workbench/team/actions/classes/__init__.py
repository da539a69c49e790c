"""A class: assignments, the desks at which students work on them, their answers and scores."""
