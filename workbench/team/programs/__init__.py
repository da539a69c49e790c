"""Registered programs: fetched without running anything, approved by digest, and run in a sandbox."""
