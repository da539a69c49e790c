"""XLA's own partitioner, run in this process, and reading the modules of it and other compilers. The package that uses protobuf."""
