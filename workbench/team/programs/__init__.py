"""Programs of a team's own: fetched without running anything, approved by digest, and run in a sandbox."""
