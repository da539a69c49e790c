"""HTML pages around the boards: rendered on the server, usable without scripts, fed by actions only."""
