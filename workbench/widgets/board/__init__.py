"""The board: its state, the user's gestures, and the edits they make."""
