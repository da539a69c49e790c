"""One strategy for every operation, under a memory limit over time: the problem of automatic sharding, with a bound on its optimum."""
