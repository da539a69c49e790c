"""User actions apart from gestures in rooms: one file per resource, run through `perform` only."""
