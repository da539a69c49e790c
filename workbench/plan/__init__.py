"""A plan, the checks that it is legal, and the edits that make another of it."""
