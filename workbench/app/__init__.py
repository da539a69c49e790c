"""Hosts of the board, a notebook cell and a served page; and the runners that run and compile for it."""
