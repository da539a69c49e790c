"""A board without Python: recordings of every state that a few drops reach, and a page that shows them."""
