"""Records that every view reads, of the planned, the partitioned, the compiled and the measured program."""
