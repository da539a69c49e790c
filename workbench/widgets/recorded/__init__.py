"""A board without Python behind it: every state that a few drops reach, written down, and a page that shows them."""
