"""A Conformer encoder of speech."""
