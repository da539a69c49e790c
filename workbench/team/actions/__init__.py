"""Everything that a person can do on a team's server apart from gestures in a room: one file a noun, `perform` is the only door."""
