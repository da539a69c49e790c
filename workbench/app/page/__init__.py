"""The served page: its server, its gate, and the board of each visitor."""
