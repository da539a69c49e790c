"""The drag-and-drop board: state and gestures in Python, drawn by one ES module; `app` hosts it."""
