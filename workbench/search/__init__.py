"""The search for a plan: spaces, bounds, fronts, and why the best plan is the best."""
