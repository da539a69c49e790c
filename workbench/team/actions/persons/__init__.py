"""People: themselves, their tokens, the projects they are in, all of the server, and what they did."""
