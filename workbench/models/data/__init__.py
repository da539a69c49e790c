"""Training data for the zoo: synthetic, or shipped with Python."""
