"""A plan, whether it may be, and the edits that make another of it."""
