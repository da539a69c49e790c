"""The board: its state, the gestures of a hand, and the edits that come of them."""
