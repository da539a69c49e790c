"""Records of the planned, partitioned, compiled and measured program, shared by all views."""
