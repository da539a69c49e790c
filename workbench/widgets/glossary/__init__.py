"""The glossary of the board."""
