"""Read compiled programs: collectives, kernels, buffers, memory."""
