"""Jobs run or compile plans on the team's devices. A job is a command line and a folder, never a pickle."""
