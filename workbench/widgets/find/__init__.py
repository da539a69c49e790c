"""The search for a plan on the board: what is wanted, how far it is, the plans found, and why."""
