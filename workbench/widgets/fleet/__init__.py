"""The board of a fleet: many models on shared devices."""
