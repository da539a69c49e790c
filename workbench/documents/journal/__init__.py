"""The history of a board, kept on disk as it grows."""
