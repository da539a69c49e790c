"""Run a pipeline as one program per stage (MPMD)."""
