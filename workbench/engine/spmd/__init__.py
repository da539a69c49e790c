"""A plan run as one program for all devices, timed and checked."""
