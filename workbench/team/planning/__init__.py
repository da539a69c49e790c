"""What a planner process of the team server does: rooms, documents described. It imports JAX; the server that starts it never does."""
