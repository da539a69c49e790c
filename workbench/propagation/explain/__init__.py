"""Explains a value's sharding: the origin of each mesh axis, the propagation steps, and the axes it won against."""
