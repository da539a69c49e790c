"""Jaxprs, read and rewritten: equations, calls inlined, layers outlined and computed again."""
