"""Kernel fusion: which operations run as one kernel, and what each kernel reads, writes and computes."""
