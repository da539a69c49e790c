"""Run a plan as one program for all devices, timed and checked."""
