"""The history of plans, and the tier of figures that is shown of each."""
