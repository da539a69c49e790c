"""Per-operation strategies under a memory limit over time (automatic sharding), with a bound on the optimum."""
