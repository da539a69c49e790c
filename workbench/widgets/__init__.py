"""The drag-and-drop board: states and gestures in Python, drawn by one ES module. `app` puts it in a notebook cell or on a page."""
