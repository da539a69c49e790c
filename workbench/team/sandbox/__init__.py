"""Isolation of registered programs: bubblewrap where the kernel permits it, and resource limits."""
