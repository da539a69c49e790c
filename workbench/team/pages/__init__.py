"""The pages around the boards: HTML made on the server, which works without scripts; what is shown comes from the actions alone."""
