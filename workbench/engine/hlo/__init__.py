"""Compiled programs, read: collectives, kernels, buffers, memory."""
