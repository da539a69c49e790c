"""Every record as text."""
