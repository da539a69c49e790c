"""Records as plain JSON values, for `--json` and for scripts."""
