"""A class: assignments, the work of students on them, answers and scores."""
