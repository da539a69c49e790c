"""The served page: its server, its access control, and the board of each visitor."""
