"""The plan of a command line that names none."""

DEFAULT_MODEL, DEFAULT_MESH = "gpt", "data:4 model:2"
