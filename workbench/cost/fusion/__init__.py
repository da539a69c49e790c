"""Kernel fusion: which operations form a kernel, and what each kernel reads, writes and computes."""
