"""Plan search: spaces, bounds, Pareto fronts, and explanations of the best plan."""
