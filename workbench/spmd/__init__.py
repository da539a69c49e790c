"""XLA's own partitioner, asked in this process, and the modules that it and other compilers leave, read. The room of protobuf."""
