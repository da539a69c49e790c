"""The history of plans, and which tier of figures is shown for each."""
