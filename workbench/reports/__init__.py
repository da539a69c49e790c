"""Records that every view reads: what is planned, partitioned, compiled and measured."""
