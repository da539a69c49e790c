"""Jobs: plans that run, or are compiled, where the team's devices are. A job is a command line and a folder, never a pickle."""
