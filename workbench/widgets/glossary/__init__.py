"""What the words on the board mean."""
