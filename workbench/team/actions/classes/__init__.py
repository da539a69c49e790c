"""Classes: assignments, students' work, answers and scores."""
