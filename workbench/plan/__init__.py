"""Plans, legality checks, and edits that make a new plan."""
